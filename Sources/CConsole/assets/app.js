// The frame around every page: the signed-in operator, the navigation, and the routes from addresses to pages.
import { amount, announce, button, call, get, h, icon, learnNames, loadMe, me, noun, onSignedOut, plural, problemBox, query, refill, quoted, shortCount, WAVES } from './ui.js'
import { everywhere, help, step } from './keys.js'
import * as live from './live.js'
import { signIn } from './signin.js'
import { now } from './now.js'
import { failures } from './failures.js'
import { mutations } from './mutations.js'
import { mutation } from './mutation.js'
import { lanes } from './lanes.js'
import { user } from './user.js'
import { organizations } from './organizations.js'
import { organization } from './organization.js'
import { channel } from './channel.js'
import { operations } from './operations.js'
import { operation } from './operation.js'
import { audit } from './audit.js'
import { recent } from './recent.js'
import { entity } from './entities.js'
import { device } from './device.js'

// `:name` is a parameter; the first matching route applies
const ROUTES = Object.entries({
	'': now, recent, failures, mutations, lanes, operations, audit, organizations,
	'organizations/:organization': organization,
	'organizations/:organization/channel': channel,
	'organizations/:organization/entity': entity,
	'organizations/:organization/operations/:operation': operation,
	'organizations/:organization/users/:user': user,
	'organizations/:organization/users/:user/devices/:device': device,
	'organizations/:organization/users/:user/mutations/:mutation': mutation,
	'organizations/:organization/:part': organization,
}).map(([pattern, page]) => [new RegExp(`^/console/?${pattern.replace(/:(\w+)/g, '(?<$1>[^/]+)')}/?$`), page])

const PAGES = [
	['', 'Now', 'n', 'M3 12h4l3-8 4 16 3-8h4'],
	['recent', 'Recent', 'm', 'M5 5h14M5 10h14M5 15h9M5 20h5M16 16v5m-2.5-2.5L16 21l2.5-2.5'],
	['failures', 'Failures', 'f', 'M12 8v5m0 3.5v.5M12 3l9.5 17h-19z'],
	['operations', 'Operations', 'p', 'M4 7h10m0-3 3 3-3 3M20 17H10m0-3-3 3 3 3'],
	['organizations', 'Organizations', 'o', 'M4 20V8l8-4 8 4v12M4 20h16M9 20v-5h6v5M9 10h.1m5.9 0h.1'],
	['audit', 'Audit', 'a', 'M6 3h9l4 4v14H6zM9 11h7M9 15h7M9 7h3'],
]
const THEMES = ['system', 'light', 'dark']

const main = h('main', { id: 'main' })
const nav = h('nav.pages', { 'aria-label': 'Pages' })
const liveState = button('', live.toggle, 'live')
const theme = button('', nextTheme, 'quiet')
const bar = h('header.bar')
let leave = new AbortController(), isFirst = true, badge = null, announced = ''

function frame() {
	badge = h('span.badge', { hidden: true })
	refill(nav, h('ul', PAGES.map(([name, title, , shape]) => h('li',
		h('a', { href: name ? `/console/${name}` : '/console', 'data-page': name },
			icon(shape), h('span', title), name === 'failures' && badge)))))
	refill(bar,
		h('a.mark', { href: '/console' }, icon(WAVES, 'logo'), 'Sluice'),
		nav,
		h('div.who',
			liveState,
			h('p.me', h('span.strong', me.name), ' ', h('span.muted', `may ${me.scope}`)),
			h('div.row', theme, button('Keys', help, 'quiet'), button('Sign out', signOut, 'quiet')),
			h('p.muted.version', { title: `commit ${me.commit}` },
				`Sluice ${me.version ?? ''} ${me.commit === 'unknown' ? '' : me.commit?.slice(0, 7) ?? ''}`)))
}

// MARK: - Theme, liveness, badge

function nextTheme() {
	paintTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length])
}

function paintTheme(chosen) {
	localStorage.setItem('sluice-theme', document.documentElement.dataset.theme = chosen)
	theme.textContent = `Theme: ${chosen}`
}

const STATES = { live: 'Live', paused: 'Paused', broken: 'Not connected' }

function paintState(state) {
	liveState.dataset.state = state
	liveState.textContent = STATES[state]
	liveState.title = state === 'paused' ? 'Continue (.)' : 'Pause (.)'
}

function paintBadge({ stuck }) {
	if (!badge || !stuck) return
	const isMore = stuck.failed?.is_more || stuck.conflict?.is_more
	const total = { count: amount(stuck.failed) + amount(stuck.conflict), is_more: isMore }
	badge.hidden = total.count === 0
	refill(badge, shortCount(total), h('span.unheard', ` ${noun(total, 'waits', 'wait')} for a person`))
	const text = `${plural(stuck.failed, 'failed mutation')}, ${plural(stuck.conflict, 'conflict')}`
	if (announced && announced !== text) announce(text)
	announced = text
	paintTitle()
}

let title = ''
function paintTitle() {
	const waiting = badge && !badge.hidden ? `(${badge.firstChild.textContent}) ` : ''
	document.title = `${waiting}${title ? title + ' · ' : ''}Sluice`
}

// MARK: - Pages

function route(path) {
	for (const [pattern, page] of ROUTES) {
		const found = pattern.exec(path)
		if (found) return { page, parameters: found.groups }
	}
	return { page: missing }
}

function missing(view) {
	view.begin('Page not found')
	view.put(h('p', 'The address does not exist. ', h('a', { href: '/console' }, 'Show the current state.')))
}

async function show() {
	leave.abort()
	const own = leave = new AbortController()
	const { page, parameters } = route(location.pathname)
	const head = h('div.head'), body = h('div.body')
	const view = {
		...parameters, signal: own.signal, query: new URLSearchParams(location.search),
		asked: name => view.query.get(name) ?? '',
		get: (path, more) => get(path, { signal: own.signal, ...more }),
		// Shows the heading, with elements next to it.
		begin(text, ...actions) {
			if (own.signal.aborted) return
			title = text
			paintTitle()
			const place = head.contains(document.activeElement) ? head : null
			refill(head, h('h1', { tabindex: '-1' }, quoted(text, 120)), actions)
			if (place) head.querySelector('h1').focus()
		},
		put: (...children) => { if (!own.signal.aborted) refill(body, children) },
		body, go,
		// Changes the filters, and the page's address.
		filter: values => go(query(location.pathname, values), true),
	}
	for (const each of nav.querySelectorAll('a')) {
		const section = (location.pathname.split('/')[2] ?? '').replace(/mutations|lanes/, 'failures')
		each.ariaCurrent = each.dataset.page === section ? 'page' : null
	}
	refill(main, head, body)
	try {
		await page(view)
	} catch (problem) {
		if (own.signal.aborted) return
		if (!problem.title) console.error(problem)
		if (!head.hasChildNodes()) view.begin('This page cannot be shown')
		view.put(problemBox(problem, show))
	}
	if (!isFirst && !own.signal.aborted && !main.contains(document.activeElement)) main.querySelector('h1')?.focus({ preventScroll: true })
	isFirst = false
}

function go(href, isSamePage = false) {
	if (href === location.pathname + location.search) return show()
	history.pushState(null, '', href)
	if (!isSamePage) scrollTo(0, 0)
	return show()
}

document.addEventListener('click', event => {
	const anchor = event.target.closest('a[href]')
	if (!anchor || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
	const url = new URL(anchor.href)
	if (url.origin !== location.origin || !/^\/console(\/|$)/.test(url.pathname) || anchor.target || url.hash) return
	event.preventDefault()
	document.activeElement?.blur()
	go(url.pathname + url.search)
})
addEventListener('popstate', () => { if (main.isConnected) show() })
// a page restored from the browser's cache may belong to a user who has signed out
addEventListener('pageshow', event => { if (event.persisted) location.reload() })

// MARK: - In and out

async function signOut() {
	try { await call('DELETE', '/console/session') } catch { /* the cookie is of no use without the gateway */ }
	askWho('You are signed out.')
}

let isAsking = false
// Asks for a token, then continues with the requested page.
function askWho(text) {
	if (isAsking) return
	isAsking = true
	leave.abort()
	live.stop()
	for (const dialog of document.querySelectorAll('dialog')) dialog.close()
	document.title = 'Sign in · Sluice'
	document.body.classList.add('outside')
	bar.remove()
	main.remove()
	const page = signIn(text, async () => {
		page.remove()
		isAsking = isFirst = false
		await begin()
	})
	document.body.append(page)
	page.querySelector('input').focus()
}

async function begin() {
	try {
		await loadMe()
		// lists show names of organizations; without them, ids
		await get('/admin/organizations?limit=200').then(answer => learnNames(answer.organizations), () => {})
	} catch (problem) {
		const place = h('main', h('h1', 'Sluice'), problemBox(problem, () => { place.remove(); begin() }))
		document.body.classList.add('outside')
		return document.body.append(place)
	}
	document.body.classList.remove('outside')
	frame()
	if (!bar.isConnected) document.body.append(bar, main)
	live.start()
	await show()
}

onSignedOut(() => askWho(me.name ? 'The session has ended. Sign in again to continue.' : ''))
document.body.append(h('a.skip', { href: '#main', onclick: event => {
	event.preventDefault()
	const place = document.querySelector('h1')
	place.setAttribute('tabindex', '-1')
	place.focus()
} }, 'Skip to the content'))
for (const [name, title, key] of PAGES) everywhere(`g ${key}`, title, () => go(name ? `/console/${name}` : '/console'))
everywhere('/', 'Search or filter', () => document.querySelector('main .filters input')?.focus())
everywhere('j', 'Next row', () => step(1))
everywhere('k', 'Row before', () => step(-1))
everywhere('.', 'Pause or resume', live.toggle)
everywhere('t', 'Other theme', nextTheme)
everywhere('?', 'This list', help)
live.on('state', paintState)
live.on('now', paintBadge)
paintState(live.state)
paintTheme(localStorage.getItem('sluice-theme') ?? 'system')
begin()
