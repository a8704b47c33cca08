// The functions that the server calls. Every answer is JSON text, which the server decodes once.

const answered = (operation) => (...given) => {
  noteRoots();
  visiblePart = null;
  return JSON.stringify(operation(...given) ?? null);
};

return {
  collect: answered(collect),
  // The elements themselves, not JSON, so that the browser can be asked for their nodes.
  numberedElements: (...ids) => ids.map(elementNumbered),
  marks: answered(() => lastMarks),
  foreignFrames: answered(foreignFrames),
  adopt: answered(adopt),
  showFrame: answered(showFrame),
  placeInFrame: answered(placeInFrame),
  drawMarks: answered(drawMarks),
  eraseMarks: answered(eraseMarks),
  locate: answered(locate),
  at: answered(at),
  prepareClick: answered(prepareSelect),
  selectOption: answered(selectOption),
  copySelection: answered(copySelection),
  pasteText: answered(pasteText),
  focusSlider: answered(focusSlider),
  sliderState: answered(sliderState),
  focusForTyping: answered(focusForTyping),
  selectExisting: answered(selectExisting),
  setSpecialValue: answered(setSpecialValue),
  scrollElement: answered(scrollElement),
  scrollPage: answered(scrollPage),
  wheelDistance: answered(wheelDistance),
  pageInfo: answered(pageInfo),
  text: answered(text),
  metadata: answered(metadata),
  outline: answered(outline),
  quiet: async (...given) => JSON.stringify(await quiet(...given)),
};
