package import Foundation
package import JSONText

extension JSONWriter {
    /// A member with an array of values that `write` writes.
    package mutating func member<Values: Sequence>(
        _ name: StaticString,
        _ values: Values,
        _ write: (inout JSONWriter, Values.Element) -> Void
    ) {
        self.name(name)
        beginArray()
        for value in values { write(&self, value) }
        endArray()
    }

    package mutating func member(_ name: StaticString, _ texts: [String]) {
        member(name, texts) { $0.string($1) }
    }

    package mutating func member(_ name: StaticString, _ ids: [UUID]) {
        member(name, ids) { $0.uuid($1) }
    }

    package mutating func member(_ name: StaticString, _ bodies: some Sequence<some AnswerBody>) {
        member(name, bodies) { writer, body in writer.object { body.writeMembers(to: &$0) } }
    }

    /// A member with a body, or `null`.
    package mutating func member(_ name: StaticString, _ body: (some AnswerBody)?) {
        self.name(name)
        if let body { object { body.writeMembers(to: &$0) } } else { null() }
    }
}
