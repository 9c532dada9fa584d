// Creates elements, and text from other sources. No function of the console interprets a string as markup.

const SVG = 'http://www.w3.org/2000/svg'
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'open'])

// Returns an HTML element: `h('p.hint', {id}, 'text')`. Attributes such as `onclick` are listeners. Attributes and
// children that are null, undefined or false are left out, and so are children that are '' or 0.
export const h = (name, ...rest) => fill(document.createElement(name.split('.')[0]), name, rest)

export const svg = (name, ...rest) => fill(document.createElementNS(SVG, name.split('.')[0]), name, rest)

function fill(element, name, rest) {
	const classes = name.split('.').slice(1)
	if (classes.length) element.setAttribute('class', classes.join(' ').trim())
	const properties = rest[0]?.constructor === Object ? rest.shift() : {}
	for (const [name, value] of Object.entries(properties)) {
		if (value == null || value === false) continue
		if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
		else if (PROPERTIES.has(name)) element[name] = value
		else element.setAttribute(name, value === true ? '' : value)
	}
	put(element, rest)
	return element
}

function put(element, child) {
	if (Array.isArray(child)) for (const each of child) put(element, each)
	else if (child) element.append(child)
}

export function refill(element, ...children) {
	element.replaceChildren()
	put(element, children)
	return element
}

// characters that change the reading direction or are invisible, except joiners, which scripts and emoji need
const UNSEEN =
	/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/

const code = character => character.charCodeAt(0).toString(16).padStart(4, '0')

// Returns a text as nodes in which its invisible characters are visible.
export function visible(text, name = character => `U+${code(character).toUpperCase()}`) {
	const nodes = []
	for (let rest = text; rest;) {
		const at = rest.search(UNSEEN)
		if (at < 0) { nodes.push(rest); break }
		if (at > 0) nodes.push(rest.slice(0, at))
		nodes.push(h('span.unseen', { title: 'An invisible character' }, name(rest[at])))
		rest = rest.slice(at + 1)
		if (nodes.length > 2_000) { nodes.push(rest.replaceAll(new RegExp(UNSEEN, 'g'), '�')); break }
	}
	return nodes
}

export const escaped = character => `\\u${code(character)}`

// Returns untrusted text, isolated from the surrounding text. A long text is cut, with a button that shows all of it.
export function quoted(text, limit = 240) {
	if (text == null || text === '') return h('span.muted', '–')
	const whole = String(text)
	const element = h('bdi.quoted', visible(cut(whole, limit)))
	if (whole.length > limit) element.append(more(whole.length, () => refill(element, visible(whole))))
	return element
}

export function cut(text, limit) {
	if (text.length <= limit) return text
	const end = /[\ud800-\udbff]/.test(text[limit - 1]) ? limit - 1 : limit
	return text.slice(0, end)
}

export const more = (length, act) => h('button.more', { type: 'button', onclick: act }, `… show all ${number(length)} characters`)

export const number = value => typeof value === 'number' ? value.toLocaleString('en') : String(value ?? '–')

// Returns a count that may end at a limit: `more than 10,000`.
export const count = value =>
	value == null ? '–'
		: typeof value === 'object' ? (value.is_more ? `more than ${number(value.count)}` : number(value.count)) : number(value)

export const shortCount = value => value?.is_more ? `${number(value.count)}+` : count(value)

export const amount = value => (value && typeof value === 'object' ? value.count : value) ?? 0

// Returns the form of a noun for a count.
export const noun = (value, one, many = one + 's') => amount(value) === 1 && !value?.is_more ? one : many

export const plural = (value, one, many) => `${count(value)} ${noun(value, one, many)}`

export const figure = value => value == null ? '–'
	: value >= 100 ? number(Math.round(value)) : value >= 10 || Number.isInteger(value) ? String(Math.round(value * 10) / 10)
		: String(Math.round(value * 100) / 100)

export function span(seconds) {
	if (seconds == null) return '–'
	const value = Math.max(0, seconds)
	if (value < 1) return `${Math.round(value * 1000)} ms`
	if (value < 90) return `${Math.round(value)} s`
	if (value < 5_400) return `${Math.round(value / 60)} min`
	if (value < 129_600) return `${Math.round(value / 3_600)} h`
	return `${Math.round(value / 86_400)} days`
}

// The milliseconds by which the gateway's clock is ahead of this browser's clock.
let ahead = 0
export const setClock = at => { if (at) ahead = Date.parse(at) - Date.now() }
export const clock = () => Date.now() + ahead

// Returns a moment as a distance from now, with the moment as its title. The distance updates automatically.
export function ago(at) {
	if (!at) return h('span.muted', '–')
	const element = h('time', { datetime: at, title: at.replace('T', ' ').replace('Z', ' UTC') })
	element.textContent = distance(at)
	return element
}

function distance(at) {
	const seconds = (clock() - Date.parse(at)) / 1000
	if (Number.isNaN(seconds)) return at
	if (Math.abs(seconds) < 2) return 'now'
	return seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`
}

// Returns a moment as text, without the date if it is today.
export const moment = at => !at ? h('span.muted', '–')
	: h('time', { datetime: at, title: at }, at.slice(0, 10) === new Date(clock()).toISOString().slice(0, 10)
		? at.slice(11, 19) : at.slice(0, 16).replace('T', ' '))

setInterval(() => {
	if (document.hidden) return
	for (const element of document.querySelectorAll('time')) {
		if (/ago$|^in |^now$/.test(element.textContent)) {
			const text = distance(element.dateTime)
			if (text !== element.textContent) element.textContent = text
		}
	}
}, 5_000)

// Returns the beginning and the end of a UUID, which is enough to distinguish it from its neighbours. The title
// contains the whole UUID.
export const shortId = id => {
	const text = String(id ?? '')
	return h('code', { title: text, class: 'id' }, text.length > 20 ? `${text.slice(0, 8)}…${text.slice(-6)}` : text || '–')
}

let region
// Announces a change of the page to users of screen readers.
export function announce(text) {
	region ??= document.body.appendChild(h('div.unheard', { role: 'status', 'aria-live': 'polite' }))
	if (region.textContent !== text) region.textContent = text
}

// Returns a path of the console.
export const path = (...parts) => ['/console', ...parts.map(encodeURIComponent)].join('/')
export const query = (base, values) => {
	const pairs = Object.entries(values).filter(([, value]) => value != null && value !== '')
	const text = new URLSearchParams(pairs.flatMap(([name, value]) =>
		Array.isArray(value) ? value.map(each => [name, each]) : [[name, value]])).toString()
	return text ? `${base}?${text}` : base
}
