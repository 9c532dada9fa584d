// The mutations that wait for a person, grouped by their failure.
import { ago, button, empty, h, link, may, organizationLink, pages, pill, query, quoted, shortCount } from './ui.js'
import { actOnGroup } from './act.js'
import { FILTERS, filterBar, keepFresh } from './lists.js'

const valuesOf = view => Object.fromEntries(FILTERS.map(name => [name, view.asked(name)]))

// Returns the filters that select a group's mutations; "no response" is also a value.
const groupOf = row => Object.fromEntries(FILTERS.map(name => [name, row[name] ?? (name === 'response_status' ? 'none' : '')]))

export async function failures(view) {
	view.begin('Failures and conflicts')
	const values = valuesOf(view)
	const list = pages(view, 'Groups', [
		['count', row => link(query('/console/mutations', groupOf(row)), h('span.big', shortCount(row))), 'n'],
		['what', row => h('div', h('div', pill(row.status), ' ', h('span.strong', row.entity_type), ' ',
			h('span.answer', row.response_status ? `answered ${row.response_status}` : 'no answer'), ' ', row.error_code && h('code', row.error_code)),
		h('div.detail', quoted(row.example?.detail, 140))), 'wide'],
		['organization', organizationLink],
		['first', row => ago(row.first_at)],
		['last', row => ago(row.last_at)],
		['', row => may('settle') ? h('div.row',
			button('Retry…', () => actOnGroup(view, groupOf(row), 'retry'), 'small'),
			row.status === 'conflict' ? button('Resolve…', () => actOnGroup(view, groupOf(row), 'resolve'), 'small') : null,
			button('Discard…', () => actOnGroup(view, groupOf(row), 'discard'), 'small danger')) : null, 'act'],
	], ['/admin/failures', { ...values, status: values.status || 'failed,conflict' }, 'groups'], empty('No action needed', Object.values(values).some(Boolean) ? 'No failed or conflicting mutation matches these filters.' : 'No mutation has failed or is in conflict.'))
	view.put(filterBar(view), list.element)
	keepFresh(view, list, values.organization_id)
}
