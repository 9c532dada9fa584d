// A line chart of the last hour, small enough to fit next to its number.
import { figure, svg } from './dom.js'

const [WIDTH, HEIGHT] = [240, 44]

// Returns a line chart. `samples` are values at intervals of `step` seconds, the last of them now. Null values, and the
// part of the hour before the first value, are unknown.
export function spark(samples = [], { label, step, kind = '' }) {
	const values = [...Array(Math.max(0, 3_600 / step - samples.length)).fill(null), ...samples]
	const points = values.map((value, index) => [index, value]).filter(([, value]) => value != null), known = points.map(([, value]) => value)
	const most = Math.max(...known, 0)
	const text = known.length ? `${label} in the last hour: now ${figure(known.at(-1))}, at most ${figure(most)}` : `${label}: no data yet`
	const place = ([index, value]) => `${(index * WIDTH / (values.length - 1)).toFixed(1)} ${(HEIGHT - 3 - value / (most || 1) * (HEIGHT - 7)).toFixed(1)}`
	const line = `M${points.map(place).join('L')}`
	return svg(`svg.spark.${kind}`, { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': text }, svg('title', text),
		points.length > 1 && [svg('path.area', { d: `${line}V${HEIGHT}H${(points[0][0] * WIDTH / (values.length - 1)).toFixed(1)}Z` }), svg('path.line', { d: line, 'vector-effect': 'non-scaling-stroke' })])
}
