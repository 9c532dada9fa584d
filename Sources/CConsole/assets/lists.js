// Filters, columns and reloading that several pages with lists share. It must not import a page.
import { filters, h, mutationLink, narrow, pill, quoted, userLink } from './ui.js'
import * as live from './live.js'

export const ORGANIZATION = ['organization_id', 'Organization', 'id']
export const FILTERS = ['status', 'organization_id', 'entity_type', 'response_status', 'error_code']

// The filter form of failures and mutations. The selected values become the query of the page's URL.
export function filterBar(view, extra = []) {
	return filters(view, [
		narrow(view, ['status', 'Status'], { type: 'select', options: [['', 'failed and conflict'], ['failed'], ['conflict']] }),
		...[['entity_type', 'Entity type', 'any'], ['response_status', 'Answer', '422, or none'], ['error_code', 'Error', 'upstream_rejected'], ORGANIZATION, ...extra].map(each => narrow(view, each)),
	])
}

// Adds the subjects of the row's user, which are the issuers' names for the user, to each row of a page.
export const named = name => ({ [name]: rows, users }) => {
	for (const row of rows) row.subjects = users.find(each => each.id === row.user_id && each.organization_id === row.organization_id)?.subjects
}

export const mutationColumns = [
	['mutation', row => mutationLink(row.organization_id, row.user_id, row)],
	['status', row => pill(row.status)],
	['user', row => userLink(row.organization_id, row.user_id, row.subjects)],
	['what went wrong', row => [row.response_status && h('span.answer', `${row.response_status} `), row.error_code && [h('code', row.error_code), ' '], quoted(row.detail, 140)], 'wide'],
]

// Reloads a list 1.5 s after the last change of its organization. It does not reload while a dialog is open, while text is
// selected, or if the list shows more than 100 rows.
export function keepFresh(view, list, organization) {
	let timer = null
	live.on('changed', ({ organization_id: id }) => {
		if (id && organization && id !== organization) return
		clearTimeout(timer)
		timer = setTimeout(() => {
			const isBusy = document.querySelector('dialog') || getSelection()?.type === 'Range' || list.element.querySelectorAll('tbody tr').length > 100
			if (!view.signal.aborted && !isBusy) list.again()
		}, 1_500)
	}, view.signal)
}
