"use strict";
const filter = document.querySelector(".filter");
const field = document.getElementById("find");
const members = [...document.querySelectorAll("details.member")];
const words = new Map(members.map((member) => {
  const anchor = member.querySelector(".anchor");
  const link = document.querySelector(`.cell[href="#${anchor.id}"]`);
  return [member, { text: member.textContent.toLowerCase(), name: anchor.id.slice(2), link }];
}));
function narrow() {
  const wanted = field.value.trim().toLowerCase();
  let found = 0;
  for (const [member, { text, name, link }] of words) {
    const summary = text.slice(0, text.indexOf("\n"));
    const shown = !wanted || name.includes(wanted) || summary.includes(wanted);
    member.hidden = !shown;
    if (link) link.style.opacity = shown ? "" : ".15";
    found += shown;
  }
  for (const section of document.querySelectorAll("section.members")) {
    section.hidden = !section.querySelector("details.member:not([hidden])");
  }
  document.getElementById("found").textContent = wanted ? `${found} of ${members.length}` : "";
  document.getElementById("nothing").hidden = found > 0;
}
function open() {
  const anchor = location.hash.startsWith("#m-") && document.getElementById(location.hash.slice(1));
  if (!anchor) return;
  const member = anchor.closest("details");
  if (member.hidden) { field.value = ""; narrow(); }
  member.open = true;
  anchor.scrollIntoView();
}
filter.hidden = false;
field.addEventListener("input", narrow);
addEventListener("hashchange", open);
open();
