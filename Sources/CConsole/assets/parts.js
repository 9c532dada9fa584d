// The parts of pages: tables, pills, facts, and placeholders for empty ones.
import { amount, count, h, path, query, refill, quoted, shortId, svg } from './dom.js'

const WORDS = { in_flight: 'in flight', half_open: 'half open' }

// Shows a status or state as a coloured word.
export const pill = (status, word) => h('span', { class: `pill is-${status}` }, word ?? WORDS[status] ?? String(status ?? 'unknown'))

export const section = (title, ...children) => {
	const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, '-')}`
	return h('section', { 'aria-labelledby': id }, h('h2', { id }, title), children)
}

// Shows names and values. Pairs without a value are left out.
export const facts = pairs => h('dl.facts', pairs.filter(([, value]) => (value || value === 0) && value.length !== 0).map(([name, value]) =>
	h('div', h('dt', name), h('dd', value instanceof Node || Array.isArray(value) ? value : quoted(value)))))

export const button = (text, onclick, kind = '') => h('button', { type: 'button', class: kind, onclick }, text)

export const link = (href, ...children) => h('a', { href }, children)

export const organizationPath = (id, ...more) => path('organizations', id, ...more)
export const userPath = (organization, user) => path('organizations', organization, 'users', user)
export const mutationPath = (organization, user, mutation) => path('organizations', organization, 'users', user, 'mutations', mutation)

export const devicePath = (organization, user, device) => path('organizations', organization, 'users', user, 'devices', device)
export const entityPath = (organization, type, id) => query(path('organizations', organization, 'entity'), { entity_type: type, entity_id: id })

const [COPY, DONE, FAILED] = ['M9 9h11v11H9zM5 15H4V4h11v1', 'M5 12l5 5 9-10', 'M6 6l12 12M18 6L6 18']

// Returns the contents of a cell next to a button that copies an id.
export const copyable = (id, ...shown) => h('span.copyable', shown, h('button.copy', {
	type: 'button', title: `Copy ${id}`, 'aria-label': `Copy ${id}`, onclick: async event => {
		const target = event.currentTarget
		const done = await navigator.clipboard?.writeText(String(id)).then(() => true, () => false)
		refill(target, icon(done ? DONE : FAILED))
		setTimeout(() => refill(target, icon(COPY)), 2_000)
	},
}, icon(COPY)))

export const mutationLink = (organization, user, row) => {
	const id = row.mutation_id ?? row.id
	return copyable(id, link(mutationPath(organization, user, id), h('span.strong', `${row.operation ?? ''} ${row.entity_type ?? ''}`), ' ', shortId(id)))
}

export const deviceLink = (organization, user, device) => copyable(device, link(devicePath(organization, user, device), shortId(device)))

// An integer id is a number in a response, and a large one is text.
export const entityLink = (organization, type, id, ...shown) => copyable(id, link(entityPath(organization, type, id), shown, shortId(id)))

// The names of organizations that responses have contained so far.
const names = new Map()
export const learnNames = organizations => { for (const { id, name } of organizations) names.set(id, name) }

export const organizationLink = ({ organization_id: id, organization_name: name = names.get(id) }) =>
	copyable(id, link(organizationPath(id), name ? quoted(name, 40) : shortId(id)))

// Returns a link to a user, with the issuer's name of the user if it is known.
export const userLink = (organization, user, subjects) => {
	const subject = subjects?.[0]?.subject
	return copyable(user, link(userPath(organization, user), subject ? quoted(subject, 40) : shortId(user)))
}

export const empty = (title, text) => h('div.empty', h('p.strong', title), text && h('p', text))

// Shows a problem as the gateway returned it.
export function problemBox(problem, again) {
	return h('div.problem', { role: 'alert' },
		h('p.strong', problem.title ?? 'An error occurred in the console'),
		h('p', quoted(problem.detail || problem.message, 600)),
		problem.errors?.length && h('ul', problem.errors.slice(0, 20).map(error =>
			h('li', h('code', error.pointer || '–'), ' ', quoted(error.detail ?? error.rule)))),
		problem.requestId && h('p.muted', 'Request ', h('code', problem.requestId)),
		again && button('Try again', again))
}

// Fills an element with the response of a call. Shows an indicator if loading takes long, and shows an error.
// @returns a function that loads again
export function load(view, place, fetched, shown) {
	let turn = 0
	return async function again() {
		const own = ++turn
		const waiting = setTimeout(() => place.hasChildNodes() || refill(place, h('p.loading', { role: 'status' }, 'Loading…')), 150)
		place.ariaBusy = 'true'
		try {
			const answer = await fetched()
			if (own === turn && !view.signal.aborted) keepingFocus(place, () => refill(place, shown(answer)))
		} catch (problem) {
			if (own !== turn || view.signal.aborted) return
			if (!problem.title) console.error(problem)
			refill(place, problemBox(problem, again))
		} finally {
			clearTimeout(waiting)
			place.ariaBusy = null
		}
	}
}

// Redraws an element and restores the keyboard focus within it.
export function keepingFocus(place, act) {
	const focused = place.contains(document.activeElement) ? document.activeElement : null
	const key = focused && (focused.getAttribute('href') ?? focused.textContent)
	act()
	if (!key || place.contains(document.activeElement)) return
	const same = [...place.querySelectorAll('a, button, input, select, textarea')].find(each => (each.getAttribute('href') ?? each.textContent) === key)
	same?.focus({ preventScroll: true })
}

// Returns a table whose rows become cards if there is little space.
// @param columns `[title, row => node, class?]`
export function table(label, columns, rows) {
	const body = h('tbody')
	const add = more => body.append(...more.map(row => h('tr', { role: 'row' }, columns.map(([title, cell, kind]) =>
		h('td', { role: 'cell', 'data-label': title, class: kind }, cell(row))))))
	add(rows)
	const element = h('table.stack', { role: 'table', 'aria-label': label },
		h('thead', h('tr', { role: 'row' }, columns.map(([title, , kind]) =>
			h('th', { role: 'columnheader', scope: 'col', class: kind }, title || h('span.unheard', 'Actions'))))), body)
	return { element: h('div.scroll', element), add }
}

// Shows a list page by page: the first page, and a button for the next page.
// @param list the source of the list: `[path, values, member]`
// @param got is called with each response
export function pages(view, label, columns, [address, values, member], nothing, got) {
	const place = h('div.list')
	const page = async cursor => {
		const answer = await view.get(query(address, { ...values, cursor }))
		got?.(answer)
		return answer
	}
	const again = load(view, place, () => page(), first => {
		if (!first[member].length && !first.next) return nothing
		const list = table(label, columns, first[member])
		const foot = h('p.foot')
		const offer = next => refill(foot, next && button('Show more', async event => {
			event.target.disabled = true
			try {
				const following = await page(next)
				list.add(following[member])
				offer(following.next)
			} catch (problem) {
				refill(foot, problemBox(problem, () => offer(next)))
			}
		}))
		offer(first.next)
		return [list.element, !first[member].length && h('p.muted', 'This page of the list is empty.'), foot]
	})
	again()
	return { element: place, again }
}

export const tabs = (label, items, current) => {
	const nav = h('nav.tabs', { 'aria-label': label }, items.map(([name, href]) =>
		h('a', { href, 'aria-current': name === current && 'page' }, name)))
	// if there is no space for all links, the current link stays visible: initially, and when the size of the window
	// changes
	new ResizeObserver(() => {
		const tab = nav.querySelector('[aria-current]')?.getBoundingClientRect(), room = nav.getBoundingClientRect()
		if (tab) nav.scrollLeft += tab.left - room.left - (room.width - tab.width) / 2
	}).observe(nav)
	return nav
}

export const copyButton = (text, name = 'Copy', kind = 'small') => button(name, async event => {
	const target = event.currentTarget
	const done = navigator.clipboard?.writeText(text)
	target.textContent = await done?.then(() => 'Copied', () => null) ?? 'The browser does not allow it'
	setTimeout(() => { target.textContent = name }, 2_000)
}, kind)

export const idLine = id => h('span', h('code', id), ' ', copyButton(id))

export const countLink = (value, href) => amount(value) ? link(href, count(value)) : h('span.muted', count(value))

export const WAVES = 'M3 9c3-2.6 6-2.6 9 0s6 2.6 9 0M3 15.5c3-2.6 6-2.6 9 0s6 2.6 9 0'
export const icon = (d, kind = 'icon') => svg('svg', { viewBox: '0 0 24 24', class: kind, 'aria-hidden': 'true' }, svg('path', { d }))
