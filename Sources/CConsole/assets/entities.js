// The entities of an organization as the feed has them: types, lists, and one entity with the mutations that wrote it.
import { ago, button, copyable, count, deviceLink, empty, entityLink, entityPath, facts, filters, h, idLine, jsonView, link, load, may, moment, narrow, number, of, organizationLink, organizationPath, pages, pill, query, refill, section, shortId, userLink, userPath } from './ui.js'
import { keepFresh } from './lists.js'
import { recentList } from './recent.js'

const subjectsOf = (users, id) => users.find(each => each.id === id)?.subjects

// Shows the entities' types and a list of entities, as a part of an organization's page.
export function entities(view, place, it) {
	const type = view.asked('entity_type'), here = location.pathname
	const types = pages(view, 'Types', [
		['type', row => link(query(here, { entity_type: row.name }), h('code', row.name))],
		['entities', row => count({ count: row.entities, is_more: row.more_entities }), 'n'],
		['stored', row => row.upstream ? 'for reading; writes go to the upstream' : 'in the built-in store'],
	], [of(it.id, 'entity-types'), { counts: true, limit: 20 }, 'entity_types'], empty('No entity type yet', 'Types are registered on first use.'))
	let users = []
	const list = pages(view, 'Entities', [
		['entity', row => entityLink(it.id, row.entity_type, row.id, !type && [h('span.strong', row.entity_type), ' '])],
		['version', row => number(row.version), 'n'], ['', row => row.deleted && pill('discarded', 'deleted')],
		['changed', row => ago(row.updated_at)], ['by', row => userLink(it.id, row.updated_by, subjectsOf(users, row.updated_by))],
		['owner', row => userLink(it.id, row.owner_id, subjectsOf(users, row.owner_id))],
	], [of(it.id, 'entities'), { entity_type: type, limit: 50 }, 'entities'], empty('No entities', 'An entity appears here when a mutation or an event has written it.'), answer => { users = answer.users })
	place.append(section('Types', types.element, h('p.hint', 'Counts of living entities end at 10,000.')),
		section(type ? 'Entities of one type' : 'Entities', filters(view, [narrow(view, ['entity_type', 'Type', 'any']), narrow(view, ['entity_id', 'Server id'])], 'Find', values =>
			values.entity_id && values.entity_type ? view.go(entityPath(it.id, values.entity_type, values.entity_id)) : view.filter({ entity_type: values.entity_type })),
		h('p.hint', type ? 'By id, the last first.' : 'As in the feed, the latest change first.'), list.element))
	keepFresh(view, { element: list.element, again: () => { list.again(); types.again() } }, it.id)
}

export async function entity(view) {
	const { organization } = view, type = view.asked('entity_type'), id = view.asked('entity_id')
	const top = h('div'), content = h('div'), changes = h('div')
	let isShown = false
	view.begin(`${type} ${id}`)
	const address = more => query(of(organization, 'entities'), { entity_type: type, entity_id: id, ...more })
	const again = load(view, top, () => view.get(address(isShown && { payload: true })), ({ entities: [it], users }) => {
		const crumbs = h('p.crumbs', organizationLink({ organization_id: organization }), ' › ', link(query(organizationPath(organization, 'entities'), { entity_type: type }), 'Entities'), ' › ', idLine(id))
		if (!it) return [crumbs, empty('No such entity', 'Not even its deletion is stored.')]
		view.begin(`${type} ${id}`, it.deleted && pill('discarded', 'deleted'))
		refill(content, it.document ? jsonView(it.document, { label: 'Document' })
			: it.deleted ? h('p.muted', 'A deleted entity has no document.')
				: isShown ? h('p.muted', 'The document cannot be read with the present keys.')
					: [h('p.muted', may('settle') ? 'It is hidden. Showing it is recorded in the audit log.' : 'It is hidden. Showing it requires the scope settle.'),
						may('settle') && h('div.actions', button('Show the document', () => { isShown = true; return again() }))])
		if (!changes.hasChildNodes()) list(it)
		return [crumbs, section('Entity', facts([
			['Version', number(it.version)], ['Changed', [moment(it.updated_at), ' · ', ago(it.updated_at)]],
			['By', userLink(organization, it.updated_by, subjectsOf(users, it.updated_by))], ['On device', deviceLink(organization, it.updated_by, it.device_id)],
			['Owner', userLink(organization, it.owner_id, subjectsOf(users, it.owner_id))], ['Created', ago(it.created_at)],
			['Made as', it.client_id && copyable(it.client_id, shortId(it.client_id))], ['Place in the feed', h('code', String(it.feed_position))],
			['Visible', link(query(userPath(organization, it.owner_id), { entity_type: type, entity_id: id }), 'Why its owner sees it')],
		])), section('Document', content)]
	})
	view.put(top, changes)
	await again()

	// Lists the mutations up to the entity's last change, the newest first. A second is added to the time of this
	// change, because the time is cut to milliseconds.
	function list(it) {
		const values = { entity_type: type, entity_id: id }, until = new Date(Date.parse(it.updated_at) + 1_000).toISOString()
		const written = recentList(view, organization, { ...values, status: 'succeeded,discarded', until }, 'Retention has deleted them, or the entity came from elsewhere.')
		const open = recentList(view, organization, { ...values, status: 'pending,blocked,in_flight,failed,conflict' }, 'No open mutation names this server id.')
		refill(changes, section('Versions and their mutations', written.element), section('Open mutations', open.element))
		keepFresh(view, { element: changes, again: () => { if (!isShown) again(); written.again(); open.again() } }, organization)
	}
}
