// Before the first paint: the theme that was chosen here, else the one of the system.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const apply = () => { document.documentElement.dataset.theme = chosen() || (system.matches ? "dark" : "light"); };
  apply();
  system.addEventListener("change", apply);
})();
