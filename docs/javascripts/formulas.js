// Typesets what arithmatex marked; KaTeX is shipped beside this file, so nothing is fetched from elsewhere.
document.querySelectorAll(".arithmatex").forEach((element) => {
  const text = element.textContent.trim();
  katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: false });
});
