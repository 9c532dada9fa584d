// The sign-in, which exchanges an operator's token for a cookie that scripts cannot read.
import { call, field, form, h, icon, WAVES } from './ui.js'

export function signIn(text, done) {
	const token = field({ label: 'Operator token', type: 'password', name: 'token', required: true, autocomplete: 'current-password', pointer: '/token' })
	return h('main.sign-in',
		icon(WAVES, 'logo'),
		h('h1', 'Sign in to Sluice'),
		text && h('p', { role: 'status' }, text),
		form({
			label: 'Sign in', fields: [token], submit: 'Sign in',
			act: () => call('POST', '/console/session', { token: token.value.trim() }),
			done: () => { token.value = ''; return done() },
		}),
		h('p.hint', h('code', 'sluice token --operator'), ' creates one; with ', h('code', 'sluice dev'), ' it is in the file shown in the terminal. A session lasts 12 hours.'))
}
