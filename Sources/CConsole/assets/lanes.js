// Lanes in which nothing runs: until an operator settles the mutation that halts them, or until a point in time.
import { ago, copyable, empty, filters, link, mutationPath, narrow, organizationLink, pages, plural, shortId, userLink } from './ui.js'
import { keepFresh, named, ORGANIZATION } from './lists.js'

// The number of mutations that run once the lane continues. Blocked mutations are not counted, because they wait for
// the mutation that halts the lane.
const waiting = (row, state) => row.queued_count
	? [`${plural(row.queued_count, 'mutation')} to run, the first since `, ago(row.queued_since)]
	: state === 'halted' ? 'no mutation that could run before it is settled' : 'no other mutation'

export async function lanes(view) {
	const state = view.asked('state') || 'halted', organization_id = view.asked('organization_id')
	view.begin('Halted lanes')
	const list = pages(view, 'Lanes', [
		['user', row => userLink(row.organization_id, row.user_id, row.subjects)], ['organization', organizationLink],
		state === 'halted'
			? ['halted by', row => row.halted_by && copyable(row.halted_by, link(mutationPath(row.organization_id, row.user_id, row.halted_by), shortId(row.halted_by)))]
			: ['next try', row => ago(row.ready_at)],
		['behind it', row => waiting(row, state)],
	], ['/admin/lanes', { state, organization_id }, 'lanes'], empty('No halted lane'), named('lanes'))
	view.put(filters(view, [
		narrow(view, ['state', 'Until'], { type: 'select', options: [['halted', 'a person settles'], ['waiting', 'a moment']] }),
		narrow(view, ORGANIZATION),
	]), list.element)
	keepFresh(view, list, organization_id)
}
