// Shows JSON, indented and coloured, without changing it. Long and deep texts are shown in parts.
import { cut, escaped, h, more, number, refill, visible } from './dom.js'
import { Place, Source, flawOf, leaves, scan } from './json.js'

const [LINES, STRING, DEPTH] = [300, 400, 24]

// Returns the source text of a member of a response; null for null.
export const textOf = value =>
	value == null ? null : value instanceof Source ? value.text : JSON.stringify(value)

// Shows a JSON value.
// @param marks a note for each rewritten value, by the value's JSON Pointer; it is shown as the value's title
export function jsonView(value, { label, marks = new Map() } = {}) {
	const source = textOf(value) ?? 'null'
	const box = h('pre.json', { tabindex: '0', role: 'group', 'aria-label': label })
	const lines = printed(source, marks)
	const rest = h('button', { type: 'button', class: 'more', onclick: () => add(2_000) })
	function add(amount) {
		rest.remove()
		for (let left = amount; left > 0; left -= 1) {
			const { value: line, done } = lines.next()
			if (done) return
			box.append(line)
		}
		refill(rest, `… show more of ${number(source.length)} characters`)
		box.append(rest)
	}
	add(LINES)
	return box
}

// Yields the tokens of a text, each with the separator before it: a comma, or a line break with two spaces for each
// level.
function* laidOut(source) {
	let depth = 0, before = null
	for (const token of scan(source)) {
		const isEnd = '}]'.includes(token.kind), isBegun = before === '{' || before === '['
		if (isEnd) depth -= 1
		const breaks = before && before !== 'key' && !(isEnd && isBegun)
		yield { token, breaks, comma: breaks && !isEnd && !isBegun ? ',' : '', indent: '  '.repeat(Math.min(depth, DEPTH)) }
		if ('{['.includes(token.kind)) depth += 1
		before = token.kind
	}
}

// The lines of a text as elements. Text that is not JSON is shown unchanged.
function* printed(source, marks) {
	const place = marks.size && new Place()
	let line = h('span.line')
	try {
		for (const { token, breaks, comma, indent } of laidOut(source)) {
			if (breaks) {
				line.append(`${comma}\n`)
				yield line
				line = h('span.line', indent)
			}
			const element = piece(token, source), mark = place && marks.get(place.step(token, source))
			line.append(mark ? h('mark', { title: mark }, element) : element, token.kind === 'key' ? ': ' : '')
		}
	} catch {
		line = h('span.line', visible(cut(source, 4_000)))
	}
	yield line
}

const CLASSES = { key: 'k', string: 's', number: 'n', word: 'w' }

function piece({ kind, start, end }, source) {
	const text = source.slice(start, end), style = CLASSES[kind]
	if (!style) return text
	const element = h(`bdi.${style}`, visible(cut(text, STRING), escaped))
	if (text.length > STRING) element.append(more(text.length, () => refill(element, visible(text, escaped))))
	return element
}

// Shows two versions next to each other, member by member, with the differences marked.
export function comparison(mine, theirs, names) {
	const [left, right] = [mine, theirs].map(text => text ? leaves(text) : new Map())
	const rows = [...new Set([...right.keys(), ...left.keys()])].map(pointer => {
		const [one, other] = [left.get(pointer), right.get(pointer)]
		const differs = one !== undefined && one !== other
		return h(`tr.${differs ? 'differs' : 'same'}`, { role: 'row' },
			h('th', { role: 'rowheader', scope: 'row' }, h('bdi', visible(cut(pointer.slice(1) || 'all of it', 200)))),
			h('td', { role: 'cell', 'data-label': names[0] }, side(one, differs && 'ours', 'not changed')),
			h('td', { role: 'cell', 'data-label': names[1] }, side(other, differs && 'theirs', 'not there')))
	})
	return h('div.scroll', { tabindex: '0', role: 'group', 'aria-label': 'Both versions' },
		h('table.comparison.stack', { role: 'table' },
			h('thead', h('tr', { role: 'row' }, ['member', ...names].map(name => h('th', { role: 'columnheader', scope: 'col' }, name)))),
			h('tbody', rows.length ? rows : h('tr', { role: 'row' }, h('td', { role: 'cell', colspan: '3' }, 'No differences.')))))
}

function side(text, kind, missing) {
	if (text === undefined) return h('span.muted', missing)
	return h(kind ? `mark.${kind}` : 'span',
		piece({ kind: text[0] === '"' ? 'string' : 'number', start: 0, end: text.length }, text))
}

// Returns a field for JSON that shows syntax errors. `value` is the text, and `isValid` is whether the text is JSON.
export function jsonEditor(source, { label, id }) {
	const note = h('p', { id: `${id}-note`, class: 'hint', 'aria-live': 'polite' })
	const field = h('textarea', {
		id, rows: '14', spellcheck: 'false', autocapitalize: 'off', class: 'code', 'aria-describedby': note.id, dir: 'ltr',
		value: indented(source), oninput: check,
	})
	function check() {
		const flaw = flawOf(field.value)
		field.setAttribute('aria-invalid', flaw ? 'true' : 'false')
		note.className = flaw ? 'hint wrong' : 'hint'
		const text = flaw ? `Line ${flaw.line}, column ${flaw.column}: ${flaw.message}.` : 'Valid JSON. Numbers are sent exactly as written.'
		if (note.textContent !== text) note.textContent = text
		return !flaw
	}
	field.setSelectionRange(0, 0)
	check()
	return {
		element: h('div.field', h('label', { for: id }, label), field, note,
			h('button', { type: 'button', class: 'small', onclick: () => { field.value = indented(field.value); check() } }, 'Format')),
		get value() { return field.value },
		get isValid() { return check() },
		focus: () => field.focus(),
	}
}

// Returns a text with line breaks and two spaces for each level; unchanged if it is not JSON.
export function indented(source) {
	try {
		return [...laidOut(source)].map(({ token: { kind, start, end }, breaks, comma, indent }) =>
			`${comma}${breaks ? `\n${indent}` : ''}${source.slice(start, end)}${kind === 'key' ? ': ' : ''}`).join('')
	} catch {
		return source
	}
}
