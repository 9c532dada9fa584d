// Keyboard shortcuts, and the list of them.
import { h } from './dom.js'

const STORED = 'sluice-shortcuts'
let isOn = localStorage.getItem(STORED) !== 'off', started = null, page = new Map()

const always = new Map()

// Adds a shortcut for every page. `key` is one key, or two successive keys: `g n`.
export const everywhere = (key, name, act) => always.set(key, { name, act })

// Adds shortcuts of the current page, which are removed together with the page.
export const onPage = (view, shortcuts) => {
	const own = page = new Map(shortcuts.filter(Boolean).map(([key, name, act]) => [key, { name, act }]))
	view.signal.addEventListener('abort', () => { if (page === own) page = new Map() })
}

document.addEventListener('keydown', event => {
	if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
	if (event.target.closest('input, textarea, select, dialog')) return
	const isHelp = event.key === '?'
	if (!isOn && !isHelp) return
	const typed = started ? `${started} ${event.key}` : event.key
	started = null
	const found = page.get(typed) ?? always.get(typed)
	if (found) {
		event.preventDefault()
		found.act()
	} else if ([...always.keys(), ...page.keys()].some(key => key.startsWith(`${typed} `))) {
		started = typed
		setTimeout(() => { if (started === typed) started = null }, 1_500)
	}
})

// Moves the focus to the first link of the next row, or of the previous row.
export function step(by) {
	const rows = [...document.querySelectorAll('main tbody tr')].filter(row => row.querySelector('a, button'))
	const at = rows.findIndex(row => row.contains(document.activeElement))
	const row = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)]
	row?.querySelector('a, button').focus()
}

export function help() {
	const row = ([key, { name }]) => h('div', h('dt', key.split(' ').map((part, index) => [index && ' ', h('kbd', part)])), h('dd', name))
	const toggle = h('input', {
		type: 'checkbox', id: 'shortcuts', checked: isOn,
		onchange: () => { isOn = toggle.checked; localStorage.setItem(STORED, isOn ? 'on' : 'off') },
	})
	const dialog = h('dialog', { 'aria-labelledby': 'help-title', onclose: () => dialog.remove() },
		h('form', { method: 'dialog' }, h('h2', { id: 'help-title' }, 'Shortcuts'),
			h('div.dialog-body',
				page.size && [h('h3', 'On this page'), h('dl.keys', [...page].map(row)), h('h3', 'Everywhere')],
				h('dl.keys', [...always].map(row)),
				h('div.field.check', toggle, h('label', { for: 'shortcuts' }, 'Single keys are shortcuts (? always is)'))),
			h('div.actions', h('button.primary', { autofocus: true }, 'Close'))))
	document.body.append(dialog)
	dialog.showModal()
}
