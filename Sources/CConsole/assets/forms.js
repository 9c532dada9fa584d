// Fields and dialogs, and the display of problems at the fields to which they refer.
import { h, refill } from './dom.js'
import { button, problemBox } from './parts.js'
import { call, may } from './api.js'

let number = 0

// Returns a field with its label and hint.
// @param type `text`, `number`, `password`, `select` (with `options`: `[value, name]`), `check`, `area`
// @param pointer the field's place in the request, to which problems refer
// @param api the name of a setting in the API, which is shown next to the label
export function field({ label, type = 'text', value = '', hint, options, pointer, name, api: apiName, ...more }) {
	const id = `f${++number}`, isCheck = type === 'check', api = apiName && [' ', h('code.api', apiName)]
	const input = type === 'select'
		? h('select', { id, name, ...more }, options.map(([each, text]) => h('option', { value: each, selected: each === value }, text ?? each)))
		: type === 'area' ? h('textarea', { id, name, value: value ?? '', rows: '3', spellcheck: 'false', ...more })
			: h('input', { id, name, type: isCheck ? 'checkbox' : type, autocomplete: 'off', ...(isCheck ? { checked: Boolean(value) } : { value: value ?? '' }), ...more })
	const wrong = h('p.hint.wrong', { id: `${id}-w`, hidden: true })
	const note = hint ? h('p.hint', { id: `${id}-h` }, hint) : null
	input.setAttribute('aria-describedby', note ? `${wrong.id} ${note.id}` : wrong.id)
	const element = h('div', { class: isCheck ? 'field check' : 'field', 'data-pointer': pointer },
		isCheck ? [input, h('label', { for: id }, label, api)] : [h('label', { for: id }, label, api), input], wrong, note)
	input.addEventListener('input', () => blame(element, null))
	return {
		element, input,
		get value() { return isCheck ? input.checked : input.value },
		set value(other) { if (isCheck) input.checked = other; else input.value = other },
	}
}

// Shows an error at a field; null removes it.
function blame(element, text) {
	const wrong = element.querySelector('.wrong'), input = element.querySelector('input, select, textarea')
	if (!wrong) return
	wrong.hidden = !text
	wrong.textContent = text ?? ''
	if (text) input.setAttribute('aria-invalid', 'true')
	else input.removeAttribute('aria-invalid')
}

// Shows a problem: each error at the field to which its pointer refers, and the whole problem at the top.
export function showProblem(form, place, problem) {
	const fields = [...form.querySelectorAll('[data-pointer]')]
	for (const each of fields) blame(each, null)
	let first = null
	for (const error of problem.errors ?? []) {
		const found = fields.find(each => error.pointer === each.dataset.pointer || error.pointer?.startsWith(each.dataset.pointer + '/'))
		if (!found) continue
		blame(found, error.detail ?? error.rule)
		first ??= found
	}
	refill(place, problemBox(problem))
	const input = first?.querySelector('input, select, textarea')
	if (input) input.focus()
	else place.scrollIntoView({ block: 'nearest' })
}

const lines = text => text.split('\n').filter(line => line.trim())
const area = texts => ({ type: 'area', value: texts?.join('\n') })
const optional = text => text.trim() === '' ? null : text.trim()

// The kinds of members: how a field shows the value, and how the value is read from the field.
const KINDS = {
	text: { show: value => ({ value, inputmode: null }), read: optional },
	whole: { show: value => ({ value, inputmode: 'numeric' }), read: text => /^\d+$/.test(text.trim()) ? Number(text) : optional(text) },
	flag: { show: value => ({ type: 'check', value }), read: value => value },
	lines: { show: area, read: text => lines(text).map(line => line.trim()) },
	pairs: {
		show: value => area(Object.entries(value ?? {}).map(pair => pair.join(' '))),
		read: text => Object.fromEntries(lines(text).map(line => /^(\S*)\s+(.*?)\s*$/.exec(line)?.slice(1) ?? [line, ''])),
	},
	objects: { show: value => area(value?.map(each => JSON.stringify(each))), read: text => lines(text).map(parsed) },
}

// Returns the kind of a select with these options. Options that begin with `true` are of a Boolean.
const choice = options => ({
	show: value => ({ type: 'select', options, value: String(value ?? options[0][0]) }),
	read: value => options[0][0] === 'true' ? value === 'true' : value,
})

function parsed(line) {
	try {
		return JSON.parse(line)
	} catch {
		return line
	}
}

// Returns fields for the members of an object.
// @param members `[name, label, kind, hint]`; kinds are choices (`[value, text]`), `flag`, `text` and `whole` (null if
// empty), `lines`, `pairs` (one pair in each line, separated by a space), and `objects` (one JSON object in each line;
// the gateway refuses any other text)
export function record(members, values, prefix = '') {
	const kinds = members.map(([, , kind]) => Array.isArray(kind) ? choice(kind) : KINDS[kind ?? 'text'])
	const fields = members.map(([name, label, , hint], index) => field({ label, hint, name, api: name, pointer: `${prefix}/${name}`, ...kinds[index].show(values?.[name]) }))
	return { fields, read: () => Object.fromEntries(members.map(([name], index) => [name, kinds[index].read(fields[index].value)])) }
}

// @param act receives the reason and saves the form; its result is passed to `done`
export function form({ label, fields, submit, act, done, reason }) {
	const place = h('div'), send = h('button.primary', submit)
	const why = reason ? field({ label: 'Reason', maxlength: '160', hint: 'For the audit log.' }) : null
	return h('form.form', { 'aria-label': label, novalidate: true, onsubmit: once(place, send, async () => done(await act(why?.value.trim()))) },
		place, [...fields, why].map(each => each?.element ?? each), h('div.actions', send))
}

// Disables the fields within an element for operators without the scope admin.
export function lock(place) {
	if (may('admin')) return
	for (const each of place.querySelectorAll('input, select, textarea, form button')) each.disabled = true
	place.prepend(h('p.hint', 'Changes require the scope admin.'))
}

// Performs an action, never twice at the same time, and shows its errors.
const once = (place, send, act) => async event => {
	event.preventDefault()
	if (send.disabled) return
	send.disabled = true
	refill(place)
	try {
		await act()
	} catch (problem) {
		showProblem(event.target, place, problem)
	} finally {
		send.disabled = false
	}
}

// Returns a field of a filter, with the value from the address.
export const narrow = (view, [name, label, placeholder], more) => field({ name, label, placeholder, value: view.asked(name), ...more })

// Returns fields that filter a page. Their values are written to the address, so that it can be saved and shared.
// @param act receives the fields' values by name, instead of the address
export function filters(view, fields, submit = 'Filter', act = view.filter) {
	const apply = () => act(Object.fromEntries(fields.map(each => [each.input.name, each.value.trim()])))
	return h('form.filters', {
		role: 'search', 'aria-label': submit, onsubmit: event => { event.preventDefault(); apply() },
		onchange: event => { if (event.target.tagName === 'SELECT' && act === view.filter) apply() },
	}, fields.map(each => each.element), h('div.actions', h('button.primary', submit),
		act === view.filter && [...view.query.values()].some(Boolean) ? h('a', { href: location.pathname }, 'Clear') : null))
}

// Asks in a dialog, and performs the action. The browser keeps the focus inside the dialog, and restores the focus
// afterwards.
// @param reason `required`, `optional`, or nothing
// @param does receives the reason and returns a call, `[method, path, body]`. If the call fails, the problem is shown
// and the dialog stays open
// @returns the call's response, or true without a response; null if the dialog was cancelled
export function ask({ title, text, children = [], submit, danger, reason, does, then, message, ready, wide }) {
	return new Promise(resolve => {
		const place = h('div'), id = `d${++number}`, isRequired = reason === 'required'
		const why = reason && field({ label: 'Reason', required: isRequired, maxlength: '160', hint: `For the audit log${isRequired ? '.' : ' (optional).'}` })
		const send = h(`button.primary${danger ? '.danger' : ''}`, submit)
		let answer = null
		const dialog = h('dialog', { 'aria-labelledby': id, class: wide && 'wide', onclose: () => { dialog.remove(); resolve(answer) } },
			h('form', { method: 'dialog', novalidate: true, onsubmit: once(place, send, async () => {
				const given = why?.value.trim()
				if (isRequired && !given) {
					blame(why.element, 'Enter a reason, in a few words.')
					return why.input.focus()
				}
				const [method, path, body] = does(given)
				answer = await call(method, path, body, { reason: given }) ?? true
				dialog.close()
				if (message) toast(message)
				then?.()
			}) }, h('h2', { id }, title), h('div.dialog-body', text && h('p', text), children.map(each => each?.element ?? each), why?.element, place),
			h('div.actions', button('Cancel', () => dialog.close()), send)))
		document.body.append(dialog)
		dialog.showModal()
		ready?.({ enable: isReady => { send.disabled = !isReady }, name: other => { send.textContent = other } })
	})
}

// A short message at the bottom of the page that disappears automatically.
export function toast(text) {
	const element = h('div.toast', { role: 'status' }, text)
	document.body.append(element)
	setTimeout(() => element.remove(), 6_000)
}
