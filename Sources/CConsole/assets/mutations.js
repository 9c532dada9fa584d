// The mutations of a group or of any filter that wait for a person, the newest first.
import { ago, button, empty, h, link, may, number, organizationLink, pages } from './ui.js'
import { actOnGroup } from './act.js'
import { FILTERS, filterBar, keepFresh, mutationColumns, named } from './lists.js'

export async function mutations(view) {
	view.begin('Mutations that need action', link('/console/failures', 'Groups'))
	const values = Object.fromEntries([...FILTERS, 'user_id'].map(name => [name, view.asked(name)]))
	const list = pages(view, 'Mutations', [
		...mutationColumns.slice(0, 3),
		['organization', organizationLink],
		mutationColumns[3],
		['attempts', row => number(row.attempt_count), 'n'],
		['since', row => ago(row.changed_at)],
	], ['/admin/mutations', { ...values, status: values.status || 'failed,conflict' }, 'mutations'], empty('Nothing fits', 'The mutations may have been settled.'), named('mutations'))
	const isGroup = values.organization_id && may('settle')
	const group = { ...values, status: values.status || null }
	view.put(
		filterBar(view, [['user_id', 'User', 'id']]),
		isGroup ? h('div.actions',
			button('Retry all…', () => actOnGroup(view, group, 'retry')),
			values.status === 'conflict' ? button('Resolve all…', () => actOnGroup(view, group, 'resolve')) : null,
			button('Discard all…', () => actOnGroup(view, group, 'discard'), 'danger')) : null,
		list.element,
	)
	keepFresh(view, list, values.organization_id)
}
