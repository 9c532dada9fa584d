// Mutations in every status, the latest change first: of an organization, of a user, of a device or of an entity.
import { ago, deviceLink, empty, entityLink, filters, get, h, learnNames, link, mutationLink, narrow, number, of, organizationPath, pages, pill, query, quoted, shortId, userLink } from './ui.js'
import { keepFresh, named } from './lists.js'

const STATUSES = ['pending', 'blocked', 'in_flight', 'succeeded', 'conflict', 'failed', 'discarded']

const COLUMNS = [
	['mutation', row => mutationLink(row.organization_id, row.user_id, row)],
	['status', row => pill(row.status)],
	['entity', row => row.server_id != null ? entityLink(row.organization_id, row.entity_type, row.server_id) : row.local_id != null && shortId(row.local_id)],
	['version', row => row.version && number(row.version), 'n'],
	['user', row => userLink(row.organization_id, row.user_id, row.subjects)],
	['device', row => deviceLink(row.organization_id, row.user_id, row.device_id)],
	['what went wrong', row => [row.response_status && h('span.answer', `${row.response_status} `), row.error_code && h('code', quoted(row.error_code, 60))], 'wide'],
	['changed', row => ago(row.changed_at)],
]

// Returns a list of mutations. `values` are parameters of the route.
export function recentList(view, organization, values, nothing = 'A push appears here as soon as it is accepted.') {
	const hidden = new Set([values.user_id && 'user', values.device_id && 'device', values.entity_id && 'entity'])
	return pages(view, 'Recent mutations', COLUMNS.filter(([name]) => !hidden.has(name)),
		[of(organization, 'mutations', 'recent'), { ...values, limit: 50 }, 'mutations'], empty('No mutations', nothing), named('mutations'))
}

// Shows the list of an organization with its filters.
export function activity(view, place, organization, first = []) {
	const values = Object.fromEntries(['status', 'entity_type', 'user_id', 'mutation'].map(name => [name, view.asked(name)]))
	const list = recentList(view, organization, values, Object.values(values).some(Boolean) ? 'No mutation fits the filter.' : undefined)
	place.append(filters(view, [...first, narrow(view, ['status', 'Status'], { type: 'select', options: [['', 'any'], ...STATUSES.map(each => [each, each.replace('_', ' ')])] }),
		...[['entity_type', 'Entity type', 'any'], ['user_id', 'User', 'id'], ['mutation', 'Mutation', 'id']].map(each => narrow(view, each))]),
	h('p.hint', 'What the app wrote is on the page of each mutation, on request.'), list.element)
	keepFresh(view, list, organization)
}

export async function recent(view) {
	view.begin('Recent mutations')
	const { organizations, next } = await get('/admin/organizations?limit=200', { signal: view.signal }), asked = view.asked('organization_id')
	learnNames(organizations)
	const chosen = asked || organizations[0]?.id
	if (!chosen) return view.put(empty('No organization yet', 'Create one with sluice organizations.'))
	const isListed = !next && organizations.some(each => each.id === chosen)
	const organization = isListed
		? narrow(view, ['organization_id', 'Organization'], { type: 'select', value: chosen, options: organizations.map(each => [each.id, each.name]) })
		: narrow(view, ['organization_id', 'Organization', 'id'], { value: chosen })
	const place = h('div')
	view.put(place)
	activity(view, place, chosen, [organization])
	view.begin('Recent mutations', link(organizationPath(chosen), 'Organization'), ' ', link(query(organizationPath(chosen, 'entities'), {}), 'Entities'))
}
