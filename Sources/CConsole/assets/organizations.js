// The organizations, with the number of waiting mutations of each.
import { ago, copyable, countLink, empty, filters, h, learnNames, link, narrow, organizationPath, pages, pill, query, quoted } from './ui.js'

export async function organizations(view) {
	const search = view.asked('search')
	view.begin('Organizations')
	const words = narrow(view, ['search', 'Name or id'], { type: 'search' })
	const list = pages(view, 'Organizations', [
		['name', row => copyable(row.id, link(organizationPath(row.id), h('span.strong', quoted(row.name, 60))))],
		['status', row => pill(row.status)],
		['failed', row => countLink(row.counts?.failed, query('/console/failures', { organization_id: row.id, status: 'failed' })), 'n'],
		['conflicts', row => countLink(row.counts?.conflict, query('/console/failures', { organization_id: row.id, status: 'conflict' })), 'n'],
		['halted lanes', row => countLink(row.counts?.halted_lanes, query('/console/lanes', { organization_id: row.id })), 'n'],
		['changed', row => ago(row.updated_at)],
	], ['/admin/organizations', { search, counts: true, limit: 50 }, 'organizations'], empty('No such organization', search ? 'Search by any part of a name or by the beginning of an id.' : 'Create one with sluice organizations.'), answer => learnNames(answer.organizations))
	view.put(filters(view, [words], 'Search'), list.element)
}
