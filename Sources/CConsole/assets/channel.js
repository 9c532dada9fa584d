// One channel of an organization: the users who hold it, with the source of each grant, and the number of its entities.
import { ask, button, count, empty, facts, field, filters, h, idLine, may, narrow, of, organizationLink, pages, query, quoted, refill, section, userLink } from './ui.js'

export async function channel(view) {
	const { organization } = view, name = view.asked('channel')
	view.begin('Channel', name && h('code', quoted(name, 80)))
	const crumbs = h('p.crumbs', organizationLink({ organization_id: organization }), ' › ', idLine(organization))
	const search = filters(view, [narrow(view, ['channel', 'Channel', 'project/42'])], 'Show')
	if (!name) return view.put(crumbs, search, empty('No channel is chosen', 'Enter the whole name of a channel, such as project/42.'))
	const size = h('div')
	const list = pages(view, 'Users', [
		['user', row => userLink(organization, row.user_id)], ['role', row => row.role], ['source', row => quoted(row.source, 80), 'wide'],
		['', row => may('admin') && row.source === 'operator' && button('Revoke…', () => revoke(row.user_id), 'small'), 'act'],
	], [of(organization, 'channels'), { channel: name }, 'grants'], empty('No user holds it by a grant', 'A channel user/ID is held by that user.'), ({ entities, more_entities: isMore }) =>
		refill(size, facts([['Entities', count({ count: entities, is_more: isMore })]])))
	view.put(crumbs, search, size, section('Users', list.element, may('admin') && h('div.actions', button('Grant…', grant))))

	function grant() {
		const user = field({ label: 'User', hint: 'The user’s id.', name: 'user' })
		const role = field({ label: 'Role', name: 'role', type: 'select', options: [['read', 'read'], ['write', 'read and write']] })
		return ask({
			title: `Grant ${name}`, submit: 'Grant', reason: 'optional', children: [user, role], then: list.again,
			does: () => ['PUT', of(organization, 'users', user.value.trim(), 'channels'), { channel: name, role: role.value }],
		})
	}

	function revoke(user) {
		return ask({
			title: `Revoke ${name}`, submit: 'Revoke', danger: true, reason: 'optional', then: list.again,
			text: 'With the next pull, the user’s devices remove the entities that the user sees by this channel only.',
			does: () => ['DELETE', query(of(organization, 'users', user, 'channels'), { channel: name })],
		})
	}
}
