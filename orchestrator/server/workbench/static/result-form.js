// The form for calls that wait for the user: what they were called with, and fields for the results.
// Values are put together as JSON texts: a number of twenty digits stays what was typed.
import { element, spell } from "./page.js";

let count = 0;

function label(field) {
  const parts = [spell(field.name || "Its result")];
  if (!field.required) parts.push(element("span", { class: "quiet" }, " optional"));
  return parts;
}

function note(field, id) {
  return field.description ? element("p", { class: "small quiet", id: `${id}-note` }, spell(field.description)) : "";
}

// A field with its label: `read` gives its JSON, or nothing where it was left out.
function labelled(field, control) {
  const id = `field-${(count += 1)}`;
  control.id = id;
  if (field.description) control.setAttribute("aria-describedby", `${id}-note`);
  return element("div", { class: "field" }, element("label", { for: id }, ...label(field)), control, note(field, id));
}

function text(field) {
  const control = element("input", { type: "text", autocomplete: "off" });
  // A text that is required may be empty, as JSON has it; one that is not is left out.
  return { box: labelled(field, control), read: () => (control.value || field.required ? JSON.stringify(control.value) : undefined) };
}

const numbers = { integer: "-?(0|[1-9][0-9]*)", number: "-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+\\-]?[0-9]+)?" };

function number(field) {
  const control = element("input", { type: "text", inputmode: field.kind === "integer" ? "numeric" : "decimal", autocomplete: "off",
    pattern: numbers[field.kind], required: field.required,
    title: field.kind === "integer" ? "a whole number, such as 12" : "a number, such as 12.5" });
  return { box: labelled(field, control), read: () => control.value || undefined };
}

function choice(field) {
  const shown = (one) => (one.startsWith('"') ? JSON.parse(one) : one);
  const control = element("select", { required: field.required }, element("option", { value: "" }, field.required ? "Choose…" : "(left out)"),
    ...field.choices.map((one) => element("option", { value: one }, spell(shown(one)))));
  return { box: labelled(field, control), read: () => control.value || undefined };
}

function json(field) {
  const control = element("textarea", { class: "code", rows: 2, required: field.required, placeholder: "JSON", spellcheck: "false" });
  const check = () => {
    let wrong = "";
    try {
      if (control.value.trim()) JSON.parse(control.value);
    } catch (error) {
      wrong = `This is no JSON: ${error.message}`;
    }
    control.setCustomValidity(wrong);
  };
  control.addEventListener("input", check);
  return { box: labelled(field, control), read: () => control.value.trim() || undefined };
}

function object(field) {
  const fields = field.fields.map((one) => [one, build(one)]);
  const box = element("fieldset", { class: "fields" }, element("legend", {}, ...label(field)), note(field, `fields-${(count += 1)}`),
    ...fields.map(([, made]) => made.box));
  const read = () => {
    const members = fields.map(([one, made]) => [one.name, made.read()]).filter(([, value]) => value !== undefined);
    if (!members.length && !field.required) return undefined;
    return `{${members.map(([name, value]) => `${JSON.stringify(name)}: ${value}`).join(", ")}}`;
  };
  return { box, read };
}

function list(field) {
  const items = [];
  const rows = element("div", { class: "stack" });
  const add = element("button", { type: "button", onclick: () => more() }, field.name ? `Add to ${spell(field.name)}` : "Add an item");
  const box = element("fieldset", { class: "fields" }, element("legend", {}, ...label(field)), note(field, `fields-${(count += 1)}`), rows, element("div", {}, add));
  function more() {
    const made = build({ ...field.item, name: `item ${items.length + 1}` });
    const row = element("div", { class: "item" }, made.box,
      element("button", { type: "button", class: "plain", onclick: () => { items.splice(items.indexOf(made), 1); row.remove(); add.focus(); } }, "Remove"));
    items.push(made);
    rows.append(row);
    row.querySelector("input, select, textarea")?.focus();
  }
  const read = () => (items.length || field.required ? `[${items.map((one) => one.read() ?? "null").join(", ")}]` : undefined);
  return { box, read };
}

const kinds = { text, number, integer: number, choice, json, object, list };
const build = (field) => kinds[field.kind](field);

// What the model filled in, beside what the schema says of it.
function given(parameters) {
  return element("ul", { class: "given", "aria-label": "What it is called with" }, ...parameters.map((one) => {
    const value = one.is_given ? spell(`${one.name}=${JSON.stringify(one.value)}`) : spell(one.name);
    const facts = [one.type, one.type && (one.required ? "required" : "optional"), one.is_given ? "" : "left out"].filter(Boolean).join(", ");
    const choices = one.choices.length ? ` One of ${one.choices.map((it) => spell(it)).join(", ")}.` : "";
    return element("li", {}, element("code", {}, element("bdi", { dir: "ltr" }, value)),
      element("span", { class: "small quiet" }, ` ${[facts, one.description && spell(one.description)].filter(Boolean).join(" · ")}${choices}`));
  }));
}

// The result as fields, or as a text of one's own; without a schema there is the text alone.
function result(field) {
  const id = `result-${(count += 1)}`;
  const area = element("textarea", { class: "code", id, rows: 3, spellcheck: "false" });
  const free = element("div", { class: "field" }, element("label", { for: id }, "Its result, as text or JSON"), area);
  if (!field) return { box: free, read: () => area.value };
  const made = build({ ...field, name: field.name || "Its result" });
  let fields = true;
  const change = element("button", { type: "button", class: "plain", onclick: () => {
    fields = !fields;
    if (!fields && !area.value) area.value = made.read() ?? "";
    show();
    box.querySelector(fields ? ".fields :is(input, select, textarea, button)" : `#${id}`)?.focus();
  } });
  const box = element("div", { class: "stack" });
  const show = () => {
    change.textContent = fields ? "Write text or JSON instead" : "Fill in the fields instead";
    box.replaceChildren(fields ? made.box : free, element("div", {}, change));
  };
  show();
  return { box, read: () => (fields ? made.read() ?? "" : area.value) };
}

function outcome() {
  const id = `outcome-${(count += 1)}`;
  const control = element("select", { id }, element("option", { value: "" }, "It went well"),
    element("option", { value: "FAILURE" }, "It failed: end the turn"),
    element("option", { value: "REPROMPT" }, "It failed: the model tries again"));
  return { box: element("div", { class: "field" }, element("label", { for: id }, "How it went"), control), read: () => control.value };
}

// `give` is called with what was written on the buttons, the results, and how each call went.
export function askFor({ inputs, forms }, give) {
  const calls = inputs.map((input, index) => {
    const call = Object.values(input)[0];
    const kind = call.actionInvocationType || "RESULT";
    const name = `${call.actionGroup}::${call.function || `${call.httpMethod} ${call.apiPath}`}`;
    const form = forms[index];
    const box = element("fieldset", {}, element("legend", {}, spell(name)), given(form.parameters));
    if (kind === "USER_CONFIRMATION") return { box, confirms: true, read: () => true, state: () => "" };
    const value = result(form.result);
    const went = outcome();
    box.append(value.box, went.box);
    return { box, confirms: kind !== "RESULT", read: value.read, state: went.read };
  });
  const confirms = calls.some((one) => one.confirms);
  const send = (denies) => {
    const results = calls.map((one) => (one.confirms && denies ? false : one.read()));
    const states = calls.map((one) => one.state());
    form.remove();
    give(denies ? "(denied)" : confirms ? "(confirmed)" : "(results)", { results, states });
  };
  const title = confirms ? "The agent asks whether it may" : "The agent hands this over to you";
  const buttons = element("div", { class: "tools" }, element("button", { class: "main", type: "submit" }, confirms ? "Confirm" : "Send results"));
  if (confirms) buttons.append(element("button", { type: "button", onclick: () => send(true) }, "Deny"));
  const form = element("form", { class: "waits", "aria-label": title, onsubmit: (event) => {
    event.preventDefault();
    send(false);
  } }, element("h2", {}, title), ...calls.map((one) => one.box), buttons);
  return form;
}
