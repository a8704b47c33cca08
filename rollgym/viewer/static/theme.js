// Runs before anything is drawn: applies the stored theme, if there is one.
(() => {
  try {
    const theme = localStorage.getItem("rollgym.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden: the theme of the system is used.
  }
})();
