// Sliders that a page builds from other elements (`role=slider`); they are moved by keys.

const isSlider = (element) => attribute(element, "role") === "slider";

// Focus the slider of a number or at a point. Returns its state, or null if there is none.
function focusSlider(id, x, y) {
  const wanted = intendedElement(id, x, y);
  if (!wanted) return null;
  if (isForeign(wanted) && x !== null) return insideFrame(wanted, x, y);
  const inside = Array.from(queryAll(wanted, "[role=slider]"));
  const slider = nearest(wanted, isSlider) ?? (inside.length === 1 ? inside[0] : null);
  if (!slider) return null;
  slider.focus({ preventScroll: true });
  return sliderState();
}

// The value of the focused slider and its bounds.
function sliderState() {
  const slider = activeElement();
  if (slider && isForeign(slider)) return insideFrame(slider);
  if (!slider || !isSlider(slider)) return null;
  const number = (name, otherwise) => {
    const text = attribute(slider, name);
    return text === null || text === "" || Number.isNaN(Number(text)) ? otherwise : Number(text);
  };
  return {
    now: number("aria-valuenow", null),
    low: number("aria-valuemin", 0),
    high: number("aria-valuemax", 100),
  };
}
