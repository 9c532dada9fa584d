// The gateway's event stream. A hidden tab receives no events; a broken stream is retried with growing delays.
import { get } from './api.js'
import { setClock } from './dom.js'

const listeners = { now: new Set(), changed: new Set(), operation: new Set(), state: new Set() }
let stream = null, timer = null, delay = 1_000, isPaused = false, isWanted = false

// Calls `act` with each event of a kind until the signal is aborted.
export function on(kind, act, signal) {
	listeners[kind].add(act)
	signal?.addEventListener('abort', () => listeners[kind].delete(act))
}

function emit(kind, value) {
	for (const act of [...listeners[kind]]) act(value)
}

// `live`, `paused` or `broken`; changes are published as `state` events.
export let state = 'broken'
function become(other) {
	if (state !== other) emit('state', state = other)
}

export function start() {
	isWanted = true
	if (stream || isPaused) return
	if (document.hidden) return become('paused')
	clearTimeout(timer)
	stream = new EventSource('/admin/events')
	stream.onopen = () => { delay = 1_000; become('live') }
	stream.onerror = () => {
		become('broken')
		if (stream?.readyState !== EventSource.CLOSED) return
		close()
		timer = setTimeout(retry, delay)
		delay = Math.min(delay * 2, 30_000)
	}
	for (const kind of ['now', 'changed', 'operation']) {
		stream.addEventListener(kind, event => {
			const value = JSON.parse(event.data)
			setClock(value.at)
			emit(kind, value)
		})
	}
}

// a browser does not report why a stream was refused; a call does, and opens the sign-in if that is the cause
const retry = () => get('/admin/me').then(start, () => { timer = setTimeout(retry, delay) })

function close() {
	stream?.close()
	stream = null
	clearTimeout(timer)
}

export function stop() {
	isWanted = false
	close()
	become('broken')
}

export function toggle() {
	isPaused = !isPaused
	if (isPaused) { close(); become('paused') } else start()
}

document.addEventListener('visibilitychange', () => {
	if (!isWanted || isPaused) return
	if (document.hidden) {
		close()
		become('paused')
	} else {
		start()
		// changes while the tab was hidden were not received
		emit('changed', {})
	}
})
