// One operation: its progress and its result.
import { ago, ask, button, facts, h, idLine, link, load, may, number, of, organizationLink, pill, quoted, section, span } from './ui.js'
import { progress } from './operations.js'
import * as live from './live.js'

export async function operation(view) {
	const path = of(view.organization, 'operations', view.operation), place = h('div')
	view.begin('Operation')
	view.put(place)
	let it = null
	const again = load(view, place, () => view.get(path), answer => {
		it = answer
		view.begin(`${it.kind} many`, pill(it.state))
		return page()
	})
	live.on('operation', ({ id }) => { if (id === view.operation) again() }, view.signal)
	const timer = setInterval(() => { if (it?.state === 'running' && !document.hidden) again() }, 3_000)
	view.signal.addEventListener('abort', () => clearInterval(timer))
	await again()

	function page() {
		const isRunning = it.state === 'running', left = (it.total?.count ?? 0) - it.done - it.skipped - it.failed
		return [
			h('p.crumbs', link('/console/operations', 'Operations'), ' › ', idLine(it.id)),
			progress(it),
			h('p.verdict', h('span.strong', isRunning ? 'Running. ' : it.state === 'done' ? 'Done. ' : it.state === 'cancelled' ? 'Cancelled. ' : 'Failed. '),
				`${number(it.done)} done, ${number(it.skipped)} skipped, ${number(it.failed)} failed.`,
				isRunning && left > 0 && ` ${it.total?.is_more ? 'At least' : 'About'} ${span(left / it.per_second)} remaining at ${number(it.per_second)} per second.`,
				it.error && [' ', quoted(it.error, 300)]),
			isRunning && may('settle') && h('div.actions', button('Cancel…', cancel, 'danger')),
			section('What and why', facts([
				['Reason', quoted(it.reason, 600)], ['By', quoted(it.actor, 60)], ['Organization', organizationLink({ organization_id: view.organization })],
				...Object.entries(it.filter).map(([name, value]) => [name.replaceAll('_', ' '), Array.isArray(value) ? quoted(value.join(', ')) : quoted(value)]),
				['Why not', it.reasons?.map(each => h('div', `${number(each.count)} `, h('code', each.code)))], ['Dependants', it.dependents], ['Version that stays', it.strategy], ['Maximum per second', number(it.per_second)],
				['Asked for', ago(it.created_at)], ['Begun', ago(it.started_at)], ['Ended', ago(it.ended_at)],
			])),
			h('p.hint', 'Skipped mutations cannot be settled in this way, or were settled before. Skipped and failed ones are unchanged.'),
		]
	}

	function cancel() {
		return ask({
			title: 'Cancel this operation', submit: 'Cancel it', danger: true, reason: 'optional',
			text: 'Completed changes are kept; the remaining mutations are unchanged.', does: () => ['POST', `${path}/cancel`], then: again,
		})
	}
}
