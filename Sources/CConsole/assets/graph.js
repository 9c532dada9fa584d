// The mutations that a mutation waits for, and the mutations that wait for it: a line with a dot for each mutation,
// next to their names.
import { count, h, mutationLink, noun, pill, svg } from './ui.js'

const [ROW, LEFT, OWN] = [40, 12, 36]

export function graph(organization, user, { mutation, waits_for: before = [], waited_for_by: after }) {
	const following = after?.mutations ?? [], rows = [...before, mutation, ...following], own = before.length
	const y = index => index * ROW + ROW / 2
	const curve = index => `M${LEFT} ${y(index)}C${LEFT} ${(y(index) + y(own)) / 2} ${OWN} ${(y(index) + y(own)) / 2} ${OWN} ${y(own)}`
	return h('div.graph',
		svg('svg.rail', { width: 52, height: rows.length * ROW, 'aria-hidden': 'true' },
			rows.map((row, index) => index !== own && svg('path', { d: curve(index) })),
			rows.map((row, index) => svg(`circle.dot.is-${row.status}`, { cx: index === own ? OWN : LEFT, cy: y(index), r: index === own ? 7 : 5 }))),
		h('ol', rows.map((row, index) => h('li', h('span.unheard', index < own ? 'It waits for ' : index > own ? 'Waits for it: ' : 'This one: '),
			index === own ? h('span.strong', `${row.operation} ${row.entity_type}`) : mutationLink(organization, user, row), ' ', pill(row.status)))),
		(after?.count?.is_more || after?.count?.count > following.length) && h('p.muted', `${count(after.count)} ${noun(after.count, 'waits', 'wait')} for it in all.`))
}
