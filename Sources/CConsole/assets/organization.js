// One organization: its state, its settings, and the actions that require the admin scope.
import { ago, ask, button, call, copyable, count, countLink, empty, facts, field, filters, form, h, idLine, jsonView, learnNames, link, load, lock, may, narrow, number, of, organizationPath, pages, pill, query, record, quoted, section, shortId, table, tabs, toast, userPath } from './ui.js'
import { entities } from './entities.js'
import { activity } from './recent.js'
import { chart } from './spark.js'
import { upstream } from './upstream.js'

const PARTS = [
	['Overview', '', overview], ['Mutations', 'mutations', (view, place, it) => activity(view, place, it.id)], ['Entities', 'entities', entities], ['Settings', 'settings', settings], ['Upstream', 'upstream', upstream], ['Entity types', 'types', types],
	['Users', 'users', users], ['Keys', 'keys', keys], ['Edits and webhooks', 'edits', edits],
]

export async function organization(view) {
	const id = view.organization, [title, , part] = PARTS.find(([, name]) => name === (view.part ?? '')) ?? PARTS[0], place = h('div')
	view.begin('Organization')
	const it = await view.get(of(id))
	learnNames([it])
	view.begin(it.name, pill(it.status))
	view.put(h('p.crumbs', link('/console/organizations', 'Organizations'), ' › ', idLine(id)),
		tabs('Parts of the organization', PARTS.map(([name, each]) => [name, organizationPath(id, ...(each ? [each] : []))]), title), place)
	await part(view, place, it)
}

async function overview(view, place, it) {
	const counts = await view.get(query('/admin/organizations', { search: it.id, counts: true, limit: 1 }))
		.then(answer => answer.organizations.find(each => each.id === it.id)?.counts ?? {}, () => ({}))
	const stuck = more => query('/console/failures', { organization_id: it.id, ...more })
	const completed = h('div')
	place.append(section('State', facts([
		['Failed', countLink(counts.failed, stuck({ status: 'failed' }))], ['Conflicts', countLink(counts.conflict, stuck({ status: 'conflict' }))],
		['Halted lanes', countLink(counts.halted_lanes, query('/console/lanes', { organization_id: it.id }))],
		['Operations', link(query('/console/operations', { organization_id: it.id }), 'see them')], ['Channels', link(organizationPath(it.id, 'channel'), 'find one')], ['What operators did', link(query('/console/audit', { organization_id: it.id }), 'see the audit')],
	])), section('Completed mutations', completed), section('Quotas', facts([
		['Requests a second', it.settings.requests_per_second === null ? 'any number' : number(it.settings.requests_per_second)],
		['Mutations per day and user', it.settings.mutations_per_day_per_user === null ? 'any number' : number(it.settings.mutations_per_day_per_user)],
	])), section('Properties', facts([
		['Made', ago(it.created_at)], ['Changed', ago(it.updated_at)],
		['External ids', it.external_ids?.length ? it.external_ids.map(each => h('div', quoted(each.external_id), h('span.muted', ' by '), quoted(each.issuer || 'the issuer without a name'))) : 'only its id'],
	])))
	if (may('admin')) place.append(section('Danger', h('div.actions',
		it.status === 'active' ? button('Suspend…', () => setStatus(view, it), 'danger') : button('Serve it again…', () => setStatus(view, it, true), 'primary'),
		button('Purge…', () => purge(view, it), 'danger'))))
	await load(view, completed, () => view.get(of(it.id, 'throughput')), ({ hour, day }) => [
		h('div.tiles', [['In the last hour', hour], ['In the last day', day]].map(([title, { completed: steps, step_seconds: step, is_more: isMore }]) => h('div.tile',
			h('span.tile-name', title), ' ', isMore && h('span.tile-note', 'at least '), h('span.tile-value', number(steps.reduce((sum, each) => sum + each, 0))),
			chart(steps, { label: `Completed ${title.toLowerCase()}, every ${step / 60} minutes` })))),
		h('p.hint', 'Succeeded and discarded mutations at all gateways. In each step, up to 10,000 are counted.')])()
}

function setStatus(view, it, isServed) {
	return ask({
		title: isServed ? `Serve ${it.name} again` : `Suspend ${it.name}`, submit: isServed ? 'Serve it again' : 'Suspend', danger: !isServed, reason: 'required',
		text: isServed ? 'Its phones can push and pull again, and its lanes run.' : 'Requests of its phones are rejected and its lanes stop until it is served again. No data is lost.',
		does: () => ['PUT', of(it.id), { status: isServed ? 'active' : 'suspended' }], then: () => view.go(location.pathname),
	})
}

function purge(view, it) {
	const typed = field({ label: `Type its name: ${it.name}`, name: 'name', spellcheck: 'false' })
	return ask({
		title: `Purge ${it.name}`, submit: 'Purge it', danger: true, reason: 'required', children: [typed],
		text: 'All of its data is deleted: users, mutations, documents, keys, settings. This cannot be undone.',
		ready: dialog => { dialog.enable(false); typed.input.addEventListener('input', () => dialog.enable(typed.value === it.name)) },
		does: () => ['DELETE', of(it.id)], then: () => view.go('/console/organizations'), message: 'It is being purged.',
	})
}

const SETTINGS = [
	['provisioning', 'Provisioning of users', [['on_first_push', 'any user with a valid token'], ['explicit', 'users added by an operator']]],
	['entity_types', 'Unknown entity types', [['open', 'are registered on first use'], ['registered', 'are rejected']]],
	['conflict_resolution', 'Default conflict resolution', [['manual', 'wait for a person'], ['server_wins', 'the server wins'], ['client_wins', 'the client wins']]],
	['on_conflict', 'A conflict', [['halt', 'stops its user’s lane'], ['continue', 'stops only what depends on it']]],
	['on_failure', 'A failure', [['halt', 'stops its user’s lane'], ['continue', 'stops only what depends on it']]],
	['order', 'Mutations of a user run', [['lane', 'one at a time, in order'], ['dependencies', 'at the same time, as far as they do not depend on each other']]],
	['max_in_flight_per_user', 'At the same time, per user', 'whole', 'Empty: 8. From 1 to 32.'],
	['stale_after_days', 'Stale after days', 'whole', 'Empty: 14. From 1 to 3,650.'],
	['requests_per_second', 'Quota: requests per second', 'whole', 'Of the whole organization. Empty: any number.'],
	['mutations_per_day_per_user', 'Quota: mutations per day and user', 'whole', 'Empty: any number.'],
	['user_keys', 'A key for each user', 'flag', 'Each user’s data is encrypted with a separate key, which an erasure destroys. Requires a master key.'],
]

function settings(view, place, it) {
	const name = field({ label: 'Name', api: 'name', value: it.name, pointer: '/name', maxlength: '200' })
	const chosen = record(SETTINGS, it.settings, '/settings')
	const ids = field({ label: 'External ids', api: 'external_ids', type: 'area', pointer: '/external_ids', hint: 'Issuers’ names for it, one per line: the issuer, a space, the id.', value: (it.external_ids ?? []).map(each => `${each.issuer} ${each.external_id}`).join('\n') })
	place.append(form({
		label: 'Settings', submit: 'Save', fields: [name, ...chosen.fields, ids], reason: may('admin'),
		act: reason => call('PUT', of(it.id), {
			name: name.value, settings: chosen.read(),
			external_ids: ids.value.split('\n').filter(line => line.trim()).map(line => {
				const at = line.indexOf(' ')
				return { issuer: line.slice(0, Math.max(0, at)), external_id: line.slice(at + 1).trim() }
			}),
		}, { reason }),
		done: saved => { toast('Saved; in effect on this gateway now, on others within 5 seconds.'); view.begin(saved.name, pill(saved.status)) },
	}))
	lock(place)
}

const TYPE = [
	['id_space', 'Ids', [['mapped', 'mapped: the phone’s UUIDs to the server’s ids'], ['device', 'device: each device counts its own'], ['shared', 'shared: used as they are']]],
	['upstream', 'Where mutations go', [['true', 'to the upstream'], ['false', 'into the built-in store']]],
	['visibility', 'Who sees entities', [['organization', 'all users of the organization'], ['user', 'only their creator'], ['channels', 'the users who hold their channels']]],
	['channels', 'Channels of an entity', 'lines', 'One template a line, such as project/{/project_id}. Only for users who hold channels.'],
	['grants', 'Channels that an entity grants', 'objects', 'One rule a line, such as {"user": "/officer_id", "channels": ["case/{id}"], "role": "write"}.'],
	['check_channels', 'Who checks the right to write, if mutations go to the upstream', [['false', 'only the upstream'], ['true', 'the gateway, before it sends']]],
	['on_erase', 'When their owner is erased', [['delete', 'they are deleted'], ['blank_owner', 'they are kept without an owner']]],
	['default_priority', 'Priority', 'whole', '0 to 1,000'],
	['relations', 'Relations', 'pairs', 'One a line: member, a space, entity type.'],
	['on_delete', 'When a related entity is deleted', 'pairs', 'One a line: relation, a space, restrict, cascade, set_null or ignore.'],
]

async function types(view, place, it) {
	const list = pages(view, 'Entity types', [
		['type', row => h('code', row.name)], ['ids', row => row.id_space], ['goes to', row => !row.upstream ? 'the built-in store' : row.routes ? 'the upstream, by its routes' : 'the upstream'],
		['seen by', row => ({ user: 'its creator', channels: 'holders of its channels' })[row.visibility] ?? 'everybody'], ['priority', row => number(row.default_priority), 'n'], ['in use', row => row.in_use ? 'yes' : 'no'],
		['relations', row => quoted(Object.entries(row.relations ?? {}).map(([key, value]) => `${key} → ${value}`).join(', '), 80), 'wide'],
		['', row => may('admin') && button('Change…', () => change(row), 'small'), 'act'],
	], [of(it.id, 'entity-types'), {}, 'entity_types'], empty('No entity type yet', 'Types are registered on first use, or here.'))
	place.append(list.element)
	if (may('admin')) place.append(h('div.actions', button('Register one…', () => change())))

	function change(row) {
		const name = !row && field({ label: 'Name', hint: 'Small letters, digits, - and _.' }), chosen = record(TYPE, row ?? { upstream: false, check_channels: false, default_priority: 0 })
		return ask({
			title: row ? `Change ${row.name}` : 'Register an entity type', submit: 'Save', reason: 'optional', children: [name, ...chosen.fields, row?.routes && routes(row)],
			does: () => ['PUT', of(it.id, 'entity-types', row?.name ?? name.value.trim()), chosen.read()], then: list.again,
		})
	}
}

// Shows the routes without a form, because only `sluice upstream import` and the API set them.
const routes = row => h('div', h('p.strong', 'Routes'), h('pre.json', { tabindex: '0', role: 'group', 'aria-label': 'Routes' }, quoted(JSON.stringify(row.routes, null, 2), 8_000)))

async function users(view, place, it) {
	const [issuer, subject] = [['issuer', 'Issuer'], ['subject', 'Subject or id']].map(each => narrow(view, each))
	const list = pages(view, 'Users', [
		['user', row => copyable(row.id, link(userPath(it.id, row.id), row.subjects?.length ? quoted(row.subjects[0].subject, 60) : h('code', row.id)))],
		['registered', row => row.registered ? 'yes' : 'no'], ['first seen', row => ago(row.first_seen_at)], ['last seen', row => ago(row.last_seen_at)],
		['joined into', row => row.into ? link(userPath(it.id, row.into), shortId(row.into)) : ''],
	], [of(it.id, 'users'), { issuer: subject.value ? issuer.value : '', subject: subject.value }, 'users'], empty('No such user', 'Users are listed after they push, register a device or are added.'))
	place.append(filters(view, [subject, issuer], 'Find', values => {
		const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(values.subject)
		return isId ? view.go(userPath(it.id, values.subject.toLowerCase())) : view.filter(values)
	}), list.element)
}

const listed = (title, columns, rows) => section(title, rows?.length ? table(title, columns, rows).element : h('p.muted', 'None.'))

async function keys(view, place, it) {
	const { keys } = await view.get(of(it.id, 'keys'))
	place.append(listed('Data keys', [
		['key', row => number(row.number), 'n'], ['state', row => pill(row.state)], ['made', row => ago(row.made_at)], ['master key', row => h('code', quoted(row.master_key, 60))],
	], keys), keys?.length ? '' : h('p.hint', 'Its data is not encrypted by Sluice.'))
}

async function edits(view, place, it) {
	const [{ sources }, { webhooks }, { service_tokens: tokens }] = await Promise.all([
		view.get(of(it.id, 'sources'), { asWritten: new Set(['settings']) }), view.get(of(it.id, 'webhooks')), view.get(of(it.id, 'service-tokens'))])
	const failing = [['failures', row => number(row.failure_count), 'n'], ['last error', row => quoted(row.last_error), 'wide']]
	place.append(listed('Sources', [
		['name', row => h('span.strong', row.name)], ['kind', row => row.kind], ['status', row => pill(row.status)], ['does', row => row.activity], ['last event', row => ago(row.last_event_at)], ...failing,
	], sources), ...sources.map(row => h('details', h('summary', `Settings of ${row.name}`), jsonView(row.settings, { label: `Settings of ${row.name}` }))),
	listed('Webhooks', [
		['url', row => quoted(row.url, 100), 'wide'], ['status', row => pill(row.paused_until ? 'paused' : row.status)], ['events', row => count(row.events.length), 'n'], ...failing,
	], webhooks), listed('Service tokens', [
		['source', row => row.source], ['made', row => ago(row.created_at)], ['last used', row => ago(row.last_used_at)], ['revoked', row => ago(row.revoked_at)],
	], tokens))
}
