// Reads JSON without changing it: numbers keep their digits, and deep nesting needs no stack.

// A syntax error in a JSON text, with its position.
export class Flaw extends Error {
	constructor(message, text, at) {
		super(message)
		const before = text.slice(0, at).split('\n')
		this.line = before.length
		this.column = before.at(-1).length + 1
	}
}

export class Source {
	constructor(text) { this.text = text }
	toString() { return this.text }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const WORDS = ['true', 'false', 'null']

// Yields the tokens of a text, `{kind, start, end}`: `{ } [ ] key string number word`. Throws a `Flaw`.
export function* scan(text) {
	const open = []
	let at = 0, expects = 'value'
	const flaw = message => new Flaw(message, text, at)
	for (;;) {
		while (' \t\n\r'.includes(text[at]) && at < text.length) at += 1
		if (at >= text.length) {
			if (expects === 'end') return
			throw flaw('The text ends before the value does')
		}
		const first = text[at], start = at
		if (expects === 'end') throw flaw('There is more text after the value')
		if (expects === 'colon') {
			if (first !== ':') throw flaw('A colon is missing after the name')
			at += 1
			expects = 'value'
			continue
		}
		const closes = open.at(-1) === '{' ? '}' : ']'
		if (expects === 'comma' && first === ',') {
			at += 1
			expects = closes === '}' ? 'key' : 'value'
			continue
		}
		if ((expects === 'comma' || expects.endsWith('or end')) && first === closes) {
			at += 1
			open.pop()
			expects = open.length ? 'comma' : 'end'
			yield { kind: first, start, end: at }
			continue
		}
		if (expects === 'comma') throw flaw(`A comma or ${closes} is missing`)
		if (expects.startsWith('key')) {
			if (first !== '"') throw flaw('A name in quotes is missing')
			at = endOfString(text, at, flaw)
			expects = 'colon'
			yield { kind: 'key', start, end: at }
			continue
		}
		if (first === '{' || first === '[') {
			at += 1
			open.push(first)
			expects = first === '{' ? 'key or end' : 'value or end'
			yield { kind: first, start, end: at }
			continue
		}
		let kind = 'string'
		if (first === '"') at = endOfString(text, at, flaw)
		else {
			NUMBER.lastIndex = at
			const match = NUMBER.exec(text)?.[0] ?? WORDS.find(word => text.startsWith(word, at))
			if (!match) throw flaw('A value is missing')
			kind = WORDS.includes(match) ? 'word' : 'number'
			at += match.length
		}
		expects = open.length ? 'comma' : 'end'
		yield { kind, start, end: at }
	}
}

function endOfString(text, start, flaw) {
	for (let at = start + 1; at < text.length; at += 1) {
		const character = text.charCodeAt(at)
		if (character === 0x22) return at + 1
		if (character < 0x20) throw flaw('A string has a line break or another control character: write \\n and the like')
		if (character !== 0x5c) continue
		const escape = text[at + 1]
		if (escape === 'u' ? !/^[0-9a-fA-F]{4}/.test(text.slice(at + 2, at + 6)) : !'"\\/bfnrt'.includes(escape)) {
			throw flaw('A string has an invalid escape')
		}
		at += escape === 'u' ? 5 : 1
	}
	throw flaw('A string does not end')
}

// The members with content that apps and their servers wrote.
const AS_WRITTEN = new Set(['payload', 'body', 'document', 'response_body', 'headers'])

// Parses a response. Members with content of apps become `Source`s, and a number that JavaScript would round becomes
// text.
export function parse(text, asWritten = AS_WRITTEN) {
	const tokens = scan(text)
	const next = () => tokens.next().value
	const read = (token, name) => {
		if (asWritten.has(name) && token.kind !== 'word') return new Source(text.slice(token.start, skip(token)))
		const source = () => text.slice(token.start, token.end)
		switch (token.kind) {
			case '{': {
				const object = {}
				for (let key = next(); key.kind !== '}'; key = next()) {
					const member = JSON.parse(text.slice(key.start, key.end))
					Object.defineProperty(object, member, {
						value: read(next(), member), enumerable: true, configurable: true, writable: true,
					})
				}
				return object
			}
			case '[': {
				const list = []
				for (let item = next(); item.kind !== ']'; item = next()) list.push(read(item))
				return list
			}
			case 'number': return String(Number(source())) === source() ? Number(source()) : source()
			default: return JSON.parse(source())
		}
	}
	const skip = token => {
		let depth = 0
		for (;; token = next()) {
			if (token.kind === '{' || token.kind === '[') depth += 1
			if (token.kind === '}' || token.kind === ']') depth -= 1
			if (depth === 0) return token.end
		}
	}
	const value = read(next())
	next()
	return value
}

export function flawOf(text) {
	try {
		for (const _ of scan(text));
		return null
	} catch (flaw) {
		return flaw
	}
}

// Values that are nested more deeply get no pointer.
const DEEP = 1_000

// Follows the tokens of a value, and returns their places as JSON Pointers.
export class Place {
	#stack = []

	// Must be called with each token. Returns the pointer of the value that the token begins; null for names and ends.
	step(token, text) {
		const top = this.#stack.at(-1)
		if (token.kind === 'key') {
			top.name = JSON.parse(text.slice(token.start, token.end))
			return null
		}
		if (token.kind === '}' || token.kind === ']') {
			this.#stack.pop()
			return null
		}
		if (top && top.index !== undefined) top.index += 1
		const pointer = this.#stack.length > DEEP ? null : this.#stack.map(each => `/${String(each.index ?? each.name).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
		if (token.kind === '{') this.#stack.push({ name: '' })
		if (token.kind === '[') this.#stack.push({ index: -1 })
		return pointer
	}
}

// Returns the source text of the values that contain no other values, by pointer, up to a limit.
export function leaves(text, limit = 2_000) {
	const found = new Map(), place = new Place()
	let opened = null
	for (const token of scan(text)) {
		const pointer = place.step(token, text)
		if (token.kind === '{' || token.kind === '[') opened = pointer
		else if (token.kind === '}' || token.kind === ']') {
			if (opened !== null) found.set(opened, token.kind === '}' ? '{}' : '[]')
			opened = null
		} else {
			opened = null
			if (pointer !== null) found.set(pointer, text.slice(token.start, token.end))
		}
		if (found.size >= limit) break
	}
	return found
}
