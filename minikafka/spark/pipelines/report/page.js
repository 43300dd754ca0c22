const tip = document.getElementById("tip");
document.addEventListener("pointermove", (event) => {
  const text = event.target.dataset && event.target.dataset.tip;
  tip.style.visibility = text ? "visible" : "hidden";
  if (!text) return;
  tip.textContent = text;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const above = event.clientY - tip.offsetHeight - 12;
  tip.style.left = `${Math.max(x, 8)}px`;
  tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
});
