// One device of a user: its watermark, why something has not arrived, and its mutations.
import { ago, empty, facts, h, idLine, load, number, of, organizationLink, query, section, shortId, userLink } from './ui.js'
import { keepFresh } from './lists.js'
import { recentList } from './recent.js'
import { findings, unsettled } from './user.js'

export async function device(view) {
	const { organization, user, device: id } = view, base = of(organization, 'users', user)
	const top = h('div'), why = h('div')
	view.begin('Device', shortId(id))
	const loadTop = load(view, top, async () => {
		const [{ devices }, { subjects }] = await Promise.all([view.get(`${base}/lane?limit=1`), view.get(base).catch(() => ({}))])
		return { it: devices.find(each => each.device_id === id), subjects }
	}, ({ it, subjects }) => [
		h('p.crumbs', organizationLink({ organization_id: organization }), ' › ', userLink(organization, user, subjects), ' › ', idLine(id)),
		it ? section('State', facts([
			['Watermark', number(it.accepted_sequence)], ['Last seen', ago(it.last_seen_at)], ['Not settled', unsettled(it)],
			['Oldest pending', it.oldest_pending && ago(it.oldest_pending.accepted_at)],
		]), h('p.hint', 'The watermark is the highest sequence number that a gateway has evaluated. The device’s next push begins above it.'))
			: empty('No such device', 'The user has no device of this id, or it is not among the 1,000 that were seen last.'),
	])
	const explain = load(view, why, () => view.get(query(`${base}/explain`, { device: id })), answer => findings(organization, user, answer))
	const list = recentList(view, organization, { user_id: user, device_id: id }, 'The device has pushed nothing, or retention has deleted it.')
	view.put(top, section('Why something has not arrived', why), section('Mutations', list.element))
	keepFresh(view, { element: list.element, again: () => { list.again(); loadTop(); explain() } }, organization)
	await Promise.all([loadTop(), explain()])
}
