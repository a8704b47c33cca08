// Copying and pasting without the clipboard of the browser, which all sessions share. Pages get the
// usual events, and may handle them.

function clipboardEvent(kind, text) {
  const target = activeElement() ?? document.body;
  const view = viewOf(ownerDocument(target));
  const clipboardData = new view.DataTransfer();
  if (text !== null) clipboardData.setData("text/plain", text);
  const options = { clipboardData, bubbles: true, cancelable: true, composed: true };
  const handled = !target.dispatchEvent(new view.ClipboardEvent(kind, options));
  return { handled, text: clipboardData.getData("text/plain") };
}

// The selected text, or what the page gives instead. `handled`: the page has done everything.
function copySelection(kind) {
  const active = activeElement();
  if (active && isForeign(active)) return insideFrame(active);
  const event = clipboardEvent(kind, null);
  if (event.handled) return event;
  if (active && kindOf(active) === "text") {
    const hidden = active.type === "password" || active.selectionStart === null;
    const { selectionStart, selectionEnd } = active;
    return { handled: false, text: hidden ? "" : active.value.slice(selectionStart, selectionEnd) };
  }
  const view = viewOf(ownerDocument(active ?? document.body));
  return { handled: false, text: view.getSelection()?.toString() ?? "" };
}

function pasteText(text) {
  const active = activeElement();
  if (active && isForeign(active)) return insideFrame(active);
  return clipboardEvent("paste", text);
}
