// Before anything is drawn: the theme that was chosen at an earlier visit, if one was.
(() => {
  try {
    const theme = localStorage.getItem("rollgym.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden; the system's theme does then.
  }
})();
