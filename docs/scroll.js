// Tables that are wider than their column scroll; let the keyboard reach them too.
new MutationObserver(() => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) wrap.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });
