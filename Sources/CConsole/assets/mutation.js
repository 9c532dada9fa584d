// The history of one mutation: what was pushed, sent and received, and the mutations that wait for it.
import { ago, button, comparison, copyButton, count, deviceLink, entityLink, facts, h, idLine, jsonView, link, load, may, moment, mutationLink, mutationPath, number, of, organizationLink, pill, query, quoted, section, shortId, span, table, textOf, userLink, userPath } from './ui.js'
import { edit, resolve, settle } from './act.js'
import { graph } from './graph.js'
import { onPage } from './keys.js'
import * as live from './live.js'

const OPEN = ['pending', 'blocked', 'failed', 'conflict']
const KINDS = { failed: '.bad', conflict: '.split' }

export async function mutation(view) {
	const { organization, user } = view, base = of(organization, 'users', user, 'mutations', view.mutation), place = h('div')
	let isShown = false, story = null
	view.begin('Mutation')
	view.put(place)
	const again = load(view, place, () => view.get(isShown ? `${base}?payload=true` : base), answer => {
		story = answer
		return page()
	})
	const reveal = () => { isShown = true; return again() }
	const is = (...statuses) => may('settle') && statuses.includes(story?.mutation.status)
	const waits = () => is('pending') && Boolean(story.mutation.next_retry_at)
	// an edit and a comparison need the content, so it is revealed first, and the audit log records that
	const revealed = async act => {
		if (!isShown) await reveal()
		if (!place.querySelector('.problem')) act()
	}
	const settled = kind => settle(kind, { base, story, again })
	const acts = {
		retry: () => (is('failed', 'conflict') || waits()) && settled('retry'),
		edit: () => is('failed', 'conflict') && revealed(() => edit({ base, story, again })),
		discard: () => is(...OPEN) && settled('discard'),
		resolve: () => is('conflict') && revealed(() => resolve({ base, again }, sides())),
	}
	onPage(view, may('settle') ? [['r', 'Retry', acts.retry], ['e', 'Retry with an edit', acts.edit], ['d', 'Discard', acts.discard],
		['v', 'Resolve a conflict', acts.resolve], ['p', 'Show what was written', reveal]] : [])
	live.on('changed', ({ organization_id: id }) => {
		if ((!id || id === organization) && !isShown && !document.querySelector('dialog')) again()
	}, view.signal)
	await again()

	function sides() {
		const theirs = textOf(story.mutation.error?.current?.document ?? story.entity?.document)
		return comparison(textOf(story.mutation.payload ?? story.pushed?.payload), theirs, ['the phone’s', 'the server’s'])
	}

	function page() {
		const { mutation: it, sent, lane, entity, history } = story, { error } = it, pushed = { ...it, ...story.pushed }
		const hides = story.withheld?.length > 0, rewritten = sent?.rewritten ?? []
		view.begin(`${it.operation} ${it.entity_type}`, pill(it.status))
		const shown = (value, label, what, marks) => value != null ? jsonView(value, { label, marks })
			: h('p.muted', hides ? `${what} is hidden. ${may('settle') ? 'Showing it is recorded in the audit log.' : 'Showing it requires the scope settle.'}` : `${what} is empty.`)
		const kept = value => value ?? (hides && h('span.muted', 'hidden'))
		return [
			h('p.crumbs', organizationLink({ organization_id: organization }), ' › ', userLink(organization, user, story.subjects), ' › ', idLine(it.id)),
			(error || it.last_error) && h(`div.verdict${KINDS[it.status] ?? ''}`,
				h('p.strong', error?.title ?? 'The last attempt failed'), h('p', quoted(error?.detail ?? it.last_error, 500)),
				it.next_retry_at && h('p', 'Tried again ', ago(it.next_retry_at), '.')),
			h('div.actions',
				is('conflict') && button('Resolve…', acts.resolve, 'primary'),
				is('failed', 'conflict') && [button('Retry…', acts.retry, is('failed') ? 'primary' : ''), button('Retry with an edit…', acts.edit)],
				waits() && button('Send now…', acts.retry),
				is(...OPEN) && button('Discard…', acts.discard, 'danger'),
				hides && may('settle') && button('Show what was written', reveal), story.curl && copyButton(story.curl, 'Copy as curl', ''),
				it.status !== 'succeeded' && link(query(userPath(organization, user), { mutation: it.id }), 'Why it has not arrived')),
			!hides && it.status === 'conflict' && section('Both versions', sides()),
			h('div.columns',
				section('As pushed', facts([
					['Accepted', [moment(pushed.accepted_at), ' · ', ago(pushed.accepted_at)]], ['Made', moment(pushed.created_at)],
					['Device', [deviceLink(organization, user, pushed.device_id), ` entry ${it.sequence_number}`]], ['Endpoint', kept(pushed.endpoint)],
					['Entity', it.server_id != null ? entityLink(organization, it.entity_type, it.server_id) : shortId(it.local_id)], ['Based on version', it.base_version],
				]), shown(pushed.payload, 'Payload as pushed', 'The payload')),
				section('As sent', sent ? [facts([
					['Request', h('code.wrap', `${sent.method} `, kept(sent.url && quoted(sent.url, 300)))], ['Idempotency key', sent.idempotency_key && h('code.wrap', sent.idempotency_key)],
				]), h('ul.rewritten', rewritten.map(each => h('li', h('mark', each.pointer === 'endpoint' ? 'in the path' : each.pointer || 'all of it'), ' ', each.entity_type, ' ',
					shortId(each.client_id), ' → ', h('code', quoted(each.server_id, 60))))),
				shown(sent.body, 'Body as sent', 'The body', new Map(rewritten.map(each => [each.pointer, `${each.entity_type}: was ${each.client_id}`])))]
					: h('p.muted', 'No request: it is stored in the built-in store, or was not sent yet.'))),
			h('div.columns', section('Attempts', attempts(it)), section('What waits', graph(organization, user, story), facts([
				['Lane', link(userPath(organization, user), lane?.halted_by ? (lane.halted_by === it.id ? 'halted by this one' : 'halted') : 'runs')],
				['Halted by', lane?.halted_by && lane.halted_by !== it.id && link(mutationPath(organization, user, lane.halted_by), shortId(lane.halted_by))],
				['Ahead of it', lane?.ahead && count(lane.ahead)], ['Revision', number(it.revision)],
			]))),
			(entity || history?.length > 0) && section('The entity', entity && [facts([
				['Id', entityLink(organization, it.entity_type, entity.id)], ['Made as', entity.client_id && shortId(entity.client_id)],
				['Version', entity.deleted ? `${entity.version}, deleted` : number(entity.version)],
				['Changed', [ago(entity.updated_at), entity.updated_by && [' by ', userLink(organization, entity.updated_by)]]],
				['Place in the feed', entity.feed_position && h('code', String(entity.feed_position))],
			]), entity.document && jsonView(entity.document, { label: 'Document' })],
			history?.length > 0 && table('Other mutations of it', [
				['mutation', row => mutationLink(organization, row.user_id ?? user, row)], ['status', row => pill(row.status)],
				['version', row => number(row.version), 'n'], ['when', row => ago(row.changed_at)],
			], history).element),
		]
	}

	function attempts({ attempt_count: made, response: answer }) {
		const list = story.attempts ?? []
		return [list.length ? h('ol.timeline', [...list].reverse().map(each => h(`li.is-${each.outcome}`,
			h('div', h('span.strong', `${each.number}. `), h('span.answer', each.status ? `answered ${each.status}` : 'no answer'), ' ', pill(each.outcome),
				each.revision > 1 && h('span.muted', ` revision ${each.revision}`)),
			h('div.muted', moment(each.sent_at), ' · ', ago(each.sent_at), each.duration_ms !== null && ` · took ${span(each.duration_ms / 1_000)}`),
			each.outcome_rule && h('div', 'decided by the outcome rule ', h('code', each.outcome_rule)),
			each.error && h('div', quoted(each.error, 200)))))
			: h('p.muted', made ? `${number(made)} so far; successful attempts are not recorded.` : 'No failed attempts.'),
		answer && [h('p', 'Final response: ', h('span.answer', answer.status)), answer.body && jsonView(answer.body, { label: 'Body of the response' })]]
	}
}
