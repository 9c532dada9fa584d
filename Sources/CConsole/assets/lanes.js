// Lanes in which nothing runs: until somebody settles what halts them, or until a moment.
import { ago, empty, filters, link, mutationPath, narrow, number, organizationLink, pages, shortId, userLink } from './ui.js'
import { keepFresh, ORGANIZATION } from './failures.js'
import { named } from './mutations.js'

export async function lanes(view) {
	const state = view.asked('state') || 'halted', organization_id = view.asked('organization_id')
	view.begin('Lanes that stand still')
	const list = pages(view, 'Lanes', [
		['user', row => userLink(row.organization_id, row.user_id, row.subjects)], ['organization', organizationLink],
		['halted by', row => row.halted_by && link(mutationPath(row.organization_id, row.user_id, row.halted_by), shortId(row.halted_by))],
		['next try', row => ago(row.ready_at)], ['to run', row => number(row.queued_count), 'n'], ['since', row => ago(row.queued_since)],
	], ['/admin/lanes', { state, organization_id }, 'lanes'], empty('No lane stands still'), named('lanes'))
	view.put(filters(view, [
		narrow(view, ['state', 'Until'], { type: 'select', options: [['halted', 'somebody settles'], ['waiting', 'a moment']] }),
		narrow(view, ORGANIZATION),
	]), list.element)
	keepFresh(view, list, organization_id)
}
