"use strict";
// The theme and the navigation, on every page.
const page = (() => {
  const listeners = [];

  function remembered(value) {
    try {
      if (value) localStorage.setItem("sevenhills-theme", value);
      return localStorage.getItem("sevenhills-theme");
    } catch {
      return null; // storage may be forbidden
    }
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colors`);
    for (const listener of listeners) listener();
  }

  function followTheme() {
    const preference = window.matchMedia("(prefers-color-scheme: dark)");
    const current = () => remembered() || (preference.matches ? "dark" : "light");
    preference.addEventListener("change", () => setTheme(current()));
    document.getElementById("theme").addEventListener("click", () => {
      const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      remembered(next);
      setTheme(next);
    });
    setTheme(current());
  }

  // Mark the section in view among the links.
  function markSection() {
    const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(entry.target.id).setAttribute("aria-current", "true");
      }
    }, { rootMargin: "-20% 0px -70% 0px" });
    for (const id of links.keys()) watch.observe(document.getElementById(id));
  }

  followTheme();
  markSection();
  return { onTheme: (listener) => listeners.push(listener) };
})();
