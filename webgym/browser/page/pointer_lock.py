"""Pages may not lock the pointer.

A browser without a screen moves a locked pointer back to the middle with an event that moves it
again: it spins, and serves no other session. So pages are told that it cannot be locked, as they
are on a device without a mouse.
"""

SCRIPT = """(() => {
  const refuse = Promise.reject.bind(Promise);
  Element.prototype.requestPointerLock = function requestPointerLock() {
    setTimeout(() => document.dispatchEvent(new Event("pointerlockerror")), 0);
    return refuse(new DOMException("The pointer cannot be locked.", "NotSupportedError"));
  };
})()"""
