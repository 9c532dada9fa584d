// The current state at a glance: first a sentence, then the figures, then the failures.
import { ago, amount, copyable, count, facts, figure, h, keepingFocus, link, load, me, moment, mutationPath, noun, number, organizationLink, pill, plural, refill, quoted, section, shortId, span, table, tabs } from './ui.js'
import { spark } from './spark.js'
import { firstSteps } from './steps.js'
import * as live from './live.js'

const [FAILED, CONFLICTS, HALTED, WAITING, RECENT] = ['failures?status=failed', 'failures?status=conflict', 'lanes?state=halted', 'lanes?state=waiting', 'recent'].map(it => `/console/${it}`)
const AMOUNTS = [['pushes', 'Pushes', RECENT], ['accepted', 'Accepted', RECENT], ['applied', 'Applied', RECENT], ['failed', 'Failing', FAILED]]

export async function now(view) {
	view.begin('Now')
	const place = h('div.now'), isDay = view.asked('period') === 'day'
	view.put(firstSteps(view), place)
	let state = null, heard = 0
	const again = load(view, place, () => view.get('/admin/now'), answer => {
		heard = Date.parse(answer.at)
		return page(state = answer, isDay)
	})
	live.on('now', next => {
		if (!state) return
		const { history } = state, { series, step_seconds: step } = history ?? {}
		state = { ...next, history }
		if (series) {
			// a point of the history covers some seconds: a value received within these seconds replaces the last value
			const isNew = Date.parse(next.at) - heard >= step * 1_000
			for (const [name] of AMOUNTS) push(series[name], next.rates?.[`${name}_per_second`], isNew)
			push(series.oldest_waiting_seconds, next.oldest_waiting?.age_seconds ?? 0, isNew)
			if (isNew) heard = Date.parse(next.at)
		}
		// a redraw would clear the selection of a user who is copying text
		if (getSelection()?.type !== 'Range') keepingFocus(place, () => refill(place, page(state, isDay)))
	}, view.signal)
	await again()
}

function push(series, value, isNew) {
	if (!series?.length || value === undefined) return
	if (isNew) series.push(series.shift())
	series[series.length - 1] = value
}

function page(state, isDay) {
	const { rates = {}, totals = {}, stuck = {}, history = {}, circuits = [], replicas = [], oldest_waiting: oldest, retention } = state
	const series = history.series ?? {}, step = history.step_seconds ?? 15
	const shown = (isDay ? history.day?.series : series) ?? {}, chart = isDay ? { step: history.day?.step_seconds ?? 300, period: 86_400 } : { step }
	return [
		verdict(state),
		tabs('Period of the charts', [['Last hour', '/console'], ['Last day', '/console?period=day']], isDay ? 'Last day' : 'Last hour'),
		h('div.tiles', AMOUNTS.map(([name, title, href]) => tile(title, href, number(totals[isDay ? 'day' : 'hour']?.[name]),
			`${isDay ? 'in the last day' : 'in the last hour'}; now ${figure(rates[`${name}_per_second`])} a second`, name === 'failed' && totals.hour?.failed > 0 && 'bad',
			spark(shown[name], { label: `${title} a second`, ...chart, kind: name === 'failed' ? 'bad' : '' })))),
		h('p.hint', 'These numbers and charts are of this gateway, since ', moment(totals.since), '. Waiting mutations are counted over all gateways; an organization’s page has its completed mutations at all gateways.'),
		h('div.tiles',
			tile('Oldest waiting', oldest ? mutationPath(oldest.organization_id, oldest.user_id, oldest.mutation_id) : RECENT,
				oldest ? span(oldest.age_seconds) : 'none', oldest ? ['since ', moment(oldest.accepted_at)] : 'nothing waits, except in halted lanes', oldest?.age_seconds > 300 && 'warn',
				spark(series.oldest_waiting_seconds, { label: 'Age of the oldest waiting, seconds', step })),
			tile('Failed', FAILED, stuck.failed, noun(stuck.failed, 'mutation'), amount(stuck.failed) && 'bad'),
			tile('Conflicts', CONFLICTS, stuck.conflict, noun(stuck.conflict, 'mutation'), amount(stuck.conflict) && 'split'),
			tile('Halted lanes', HALTED, stuck.halted_lanes, 'until settled', amount(stuck.halted_lanes) && 'warn'),
			tile('Waiting lanes', WAITING, stuck.waiting_lanes, 'for a next try')),
		section('Failing upstreams', circuits.length
			? table('Circuits', [
				['organization', organizationLink],
				['circuit', row => pill(row.state)],
				['since', row => ago(row.since)],
				['failures', row => number(row.failures), 'n'],
				['last error', row => quoted(row.last_error, 160), 'wide'],
				['next try', row => ago(row.next_probe_at)],
			], circuits).element
			: h('p.muted', 'Every upstream responds, or received no recent request.')),
		h('div.columns',
			section('Gateways', table('Gateways', [
				['gateway', row => [copyable(row.gateway_id, shortId(row.gateway_id)), row.gateway_id === state.gateway_id && h('span.muted', ' this one')]],
				['version', row => quoted(row.version, 40)],
				['last seen', row => ago(row.last_seen_at)],
			], replicas).element),
			section('Retention', retention ? facts([
				['Next run', retention.running_since ? ['running since ', moment(retention.running_since)] : ago(retention.next_run_at)],
				['Last run', ago(retention.last_run_at)],
				['Removed then', h('span.wrap', removed(retention.last_run))],
				['At rest', me.sealed ? 'encrypted' : 'not encrypted by Sluice'],
			]) : h('p.muted', 'No data.'))),
	]
}

function removed(run) {
	if (!run) return 'nothing yet'
	const parts = Object.entries(run).filter(([, value]) => value > 0)
	return parts.length ? parts.map(([name, value]) => `${name.replaceAll('_', ' ')}: ${number(value)}`).join(', ') : 'nothing was due'
}

// The summary for an operator on call: what needs action.
function verdict({ stuck = {}, circuits = [], oldest_waiting: oldest }) {
	const parts = [
		amount(stuck.failed) && link(FAILED, plural(stuck.failed, 'failed mutation')),
		amount(stuck.conflict) && link(CONFLICTS, plural(stuck.conflict, 'conflict')),
		circuits.length && `${plural(circuits.length, 'upstream')} that ${circuits.length === 1 ? 'fails' : 'fail'}`,
	].filter(Boolean)
	if (!parts.length) {
		return h('p.verdict.good', h('span.strong', 'All is well. '),
			oldest ? `No action needed; the oldest waiting mutation is ${span(oldest.age_seconds)} old.` : 'No mutation waits.')
	}
	return h('p.verdict.bad', h('span.strong', 'Action needed: '),
		parts.flatMap((part, index) => [index && (index === parts.length - 1 ? ' and ' : ', '), part]),
		amount(stuck.halted_lanes) ? ['. ', link(HALTED, plural(stuck.halted_lanes, 'lane')), ` ${amount(stuck.halted_lanes) === 1 ? 'is' : 'are'} halted.`] : '.')
}

const tile = (title, href, value, note, kind, picture) => h('a', { href, class: `tile ${kind || ''}` },
	h('span.tile-name', title), ' ', value?.is_more && value.count && h('span.tile-note', 'more than '), h('span.tile-value', count(value?.count ?? value)), ' ', h('span.tile-note', note), picture)
