// Before anything is shown, so that no page flashes in the other colours.
const kept = localStorage.getItem("theme");
if (kept) document.documentElement.dataset.theme = kept;
