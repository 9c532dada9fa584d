// The operator's actions on waiting mutations: on a single mutation, or on all mutations that failed in the same way.
import { amount, ask, button, call, field, h, jsonEditor, noun, of, organizationPath, plural, problemBox, refill, quoted, span, table, textOf } from './ui.js'
import { mutationColumns } from './lists.js'

const choice = (name, label, options) => field({ name, label, type: 'select', options, pointer: `/${name}` })
const strategies = () => choice('strategy', 'Which version', [['server_wins', 'keep the server’s version (server_wins)'], ['client_wins', 'the phone’s version replaces it (client_wins)']])
const VERBS = { retry: 'Retry', discard: 'Discard', resolve: 'Resolve' }
const MEANS = {
	retry: 'Each is sent again, starting with its first attempt. If it fails again, this operation does not retry it.',
	discard: 'Each is discarded. This cannot be undone.',
	resolve: 'Each conflict is settled for one of the two sides.',
}

// Shows the number of mutations and the first of them, asks for a reason and a rate, and begins the operation.
export async function actOnGroup(view, group, kind) {
	const organization = group.organization_id, path = of(organization, 'operations'), filter = {}
	for (const name of ['status', 'entity_type', 'error_code', 'user_id']) if (group[name]) filter[name] = group[name]
	if (group.response_status) filter.response_status = Number(group.response_status) || 0
	if (kind === 'resolve') filter.status = 'conflict'
	const place = h('div.preview', { 'aria-live': 'polite' }, h('p.loading', 'Counting…'))
	const rate = field({ label: 'Maximum per second', type: 'number', value: '50', min: '1', max: '1000', pointer: '/per_second', hint: 'Limits the load of the upstream.' })
	const how = kind === 'resolve' ? strategies() : kind === 'discard' && choice('dependents', 'Dependants', [
		['', 'skip mutations with dependants'], ['discard', 'also discard the dependants'], ['keep', 'keep the dependants, which run or fail']])
	let dialog = null, found = null
	const preview = async () => {
		try {
			found = await call('POST', `${path}/preview`, { kind, filter }, { signal: view.signal })
		} catch (problem) {
			return refill(place, problemBox(problem, preview))
		}
		const { sample, users } = found, matched = amount(found.count), isMore = found.count.is_more, many = plural(found.count, 'mutation')
		refill(place, h('p.strong', matched ? `${many} of ${users.is_more ? 'at least ' : ''}${plural(amount(users), 'user')}`
			: isMore ? 'No match in the examined part; there may be more.' : 'No match: the mutations may have been settled.'),
			matched && [h('p.hint', `${isMore ? 'At least' : 'About'} ${span(matched / (rate.value || 50))} at ${rate.value} a second. ${MEANS[kind]}`),
				h('details', h('summary', `Which: ${sample.length < matched ? `the first ${sample.length}` : matched === 1 ? 'this one' : 'all of them'}`),
					table('Sample', mutationColumns, sample.map(row => ({ organization_id: organization, ...row }))).element)])
		dialog.enable(matched || isMore)
		dialog.name(VERBS[kind] + (matched || !isMore ? ` ${many}` : ''))
	}
	rate.input.addEventListener('change', () => found && preview())
	const started = await ask({
		title: `${VERBS[kind]} all of this kind`, wide: true, submit: VERBS[kind], danger: kind === 'discard', reason: 'required',
		children: [h('p', Object.entries(filter).map(([name, value]) => h('span.chip', `${name.replaceAll('_', ' ')}: `, quoted(value, 60)))), place, how, rate],
		ready: it => { dialog = it; it.enable(false); preview() },
		does: reason => ['POST', path, { kind, filter, reason, per_second: Number(rate.value), ...(how?.value ? { [how.input.name]: how.value } : {}) }],
	})
	if (started?.id) view.go(organizationPath(organization, 'operations', started.id))
}

// Discards a mutation permanently, or sends it again unchanged.
export function settle(kind, { base, story, again }) {
	const waiting = kind === 'discard' && amount(story.waited_for_by?.count)
	const dependents = waiting && choice('dependents', `${plural(story.waited_for_by.count, 'mutation')} ${noun(story.waited_for_by.count, 'depends', 'depend')} on it`,
		[['discard', 'also discard them'], ['keep', 'keep them: they run, or fail if they need the entity of this mutation']])
	return ask({
		title: `${VERBS[kind]} this mutation`, submit: VERBS[kind], danger: kind === 'discard', reason: 'optional', children: [dependents],
		text: story.mutation.status === 'pending' && kind === 'retry' ? 'It is sent again now, although its upstream may have asked for more time.'
			: kind === 'retry' ? 'It is sent again unchanged, starting with its first attempt.' : 'It is discarded, and the phone is notified. This cannot be undone.',
		does: () => ['POST', `${base}/${kind}`, dependents ? { dependents: dependents.value } : {}],
		then: again, message: kind === 'retry' ? 'Returned to its lane.' : 'Discarded.',
	})
}

// Retries a mutation with another payload or endpoint, after the gateway has checked them.
export function edit({ base, story, again }) {
	const { mutation, pushed } = story, payload = textOf(mutation.payload ?? pushed?.payload)
	const editor = payload !== null && jsonEditor(payload, { label: 'Payload', id: 'edit-payload' })
	const endpoint = mutation.endpoint && field({ label: 'Endpoint', value: mutation.endpoint, pointer: '/endpoint' })
	const force = field({ label: 'Send it although the outcome of the last attempt is unknown', type: 'check', pointer: '/force', hint: 'It may take effect in addition to the earlier request.' })
	const note = h('div.hint', { role: 'status' })
	const body = () => {
		if (editor && !editor.isValid) {
			editor.focus()
			throw { title: 'Not sent', detail: 'The payload is not valid JSON.' }
		}
		return `{${[editor && `"payload":${editor.value}`, endpoint && endpoint.value !== mutation.endpoint && `"endpoint":${JSON.stringify(endpoint.value)}`,
			force.value && '"force":true'].filter(Boolean).join(',')}}`
	}
	const check = button('Validate', async () => {
		refill(note, 'Asking the gateway…')
		try {
			await call('POST', `${base}/retry?validate=true`, body())
			refill(note, 'The gateway would accept it.')
		} catch (problem) {
			refill(note, problemBox(problem))
		}
	}, 'small')
	return ask({
		title: 'Retry with an edit', submit: 'Send this', wide: true, reason: 'required',
		children: [editor && h('div', { 'data-pointer': '/payload' }, editor.element, h('p.hint.wrong', { hidden: true })), endpoint, force, h('div', check), note],
		does: () => ['POST', `${base}/retry`, body()], then: again, message: 'Returned to its lane with the edit.',
	})
}

export function resolve({ base, again }, comparison) {
	const strategy = strategies()
	return ask({
		title: 'Resolve this conflict', submit: 'Resolve', wide: true, reason: 'optional', children: [comparison, strategy],
		does: () => ['POST', `${base}/resolve`, { strategy: strategy.value }], then: again, message: 'The conflict is settled.',
	})
}
