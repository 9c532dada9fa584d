// Bulk operations, the newest first.
import { ago, empty, filters, h, link, narrow, number, of, organizationPath, pages, pill, quoted } from './ui.js'
import { ORGANIZATION } from './lists.js'
import * as live from './live.js'

// The progress of an operation, as a bar and as text.
export const progress = it => {
	const over = it.done + it.skipped + it.failed, all = Math.max(it.total?.count ?? 0, over), isMore = it.total?.is_more && it.state === 'running'
	return h('div.progress', h('progress', { max: Math.max(all, 1), value: over, 'aria-label': 'Progress' }), h('span', `${number(over)} of ${isMore ? 'more than ' : ''}${number(all)}`))
}

export async function operations(view) {
	view.begin('Operations')
	const organization = narrow(view, ORGANIZATION)
	const state = narrow(view, ['state', 'State'], { type: 'select', options: [['', 'any'], ['running'], ['done'], ['cancelled'], ['failed']] })
	const list = pages(view, 'Operations', [
		['what', row => link(organizationPath(row.organization_id, 'operations', row.id), h('span.strong', row.kind), ' ', quoted(Object.values(row.filter).flat().slice(0, 4).join(' · '), 60))],
		['state', row => pill(row.state)], ['progress', progress], ['why', row => quoted(row.reason, 80), 'wide'], ['who', row => quoted(row.actor, 40)], ['begun', row => ago(row.created_at)],
	], [organization.value ? of(organization.value, 'operations') : '/admin/operations', { state: state.value }, 'operations'], empty('No bulk operations', 'Start an operation from a group of failures.'))
	view.put(filters(view, [state, organization]), list.element)
	live.on('operation', () => list.again(), view.signal)
}
