// Line charts that are small enough to fit next to a number.
import { figure, svg } from './dom.js'

const [WIDTH, HEIGHT] = [240, 44]

// Returns a chart of a rate during the last `period` seconds. `samples` are values at intervals of `step` seconds, and
// the last value is the present rate. Null means an unknown rate. The rate before the first sample is unknown, too.
export function spark(samples = [], { label, step, period = 3_600, kind = '' }) {
	const values = [...Array(Math.max(0, period / step - samples.length)).fill(null), ...samples]
	const known = values.filter(value => value != null), name = `${label} in the last ${period > 3_600 ? 'day' : 'hour'}`
	return draw(values, known.length ? `${name}: now ${figure(known.at(-1))}, at most ${figure(Math.max(...known, 0))}` : `${label}: no data yet`, kind)
}

// Returns a chart of values at equal intervals, oldest first.
export const chart = (values, { label }) => draw(values, `${label}: ${values.map(figure).join(', ')}`, '')

function draw(values, text, kind) {
	const points = values.map((value, index) => [index, value]).filter(([, value]) => value != null)
	const most = Math.max(...points.map(([, value]) => value), 0)
	const place = ([index, value]) => `${(index * WIDTH / (values.length - 1)).toFixed(1)} ${(HEIGHT - 3 - value / (most || 1) * (HEIGHT - 7)).toFixed(1)}`
	const line = `M${points.map(place).join('L')}`
	return svg(`svg.spark.${kind}`, { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': text }, svg('title', text),
		points.length > 1 && [svg('path.area', { d: `${line}V${HEIGHT}H${(points[0][0] * WIDTH / (values.length - 1)).toFixed(1)}Z` }), svg('path.line', { d: line, 'vector-effect': 'non-scaling-stroke' })])
}
