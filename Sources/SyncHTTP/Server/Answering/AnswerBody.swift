package import HTTPTypes
package import JSONText

/// A value that responses show as a JSON object, written without errors.
package protocol AnswerBody {
    /// The text's length or a little less: the capacity to reserve.
    var expectedBytes: Int { get }

    func writeMembers(to writer: inout JSONWriter)
}

extension AnswerBody {
    package var expectedBytes: Int { 256 }

    package func json() -> [UInt8] { JSONWriter.object(capacity: expectedBytes) { writeMembers(to: &$0) } }
}

extension Answer {
    package init(_ status: HTTPResponse.Status, _ body: some AnswerBody) {
        self.init(status, json: body.json())
    }

    /// An object of these members.
    package init(_ status: HTTPResponse.Status, capacity: Int = 256, _ members: (inout JSONWriter) -> Void) {
        self.init(status, json: JSONWriter.object(capacity: capacity, members))
    }

    /// Responds with 200 and the value found, or with 404 without a value.
    package static func found(_ body: (some AnswerBody)?) throws(Refusal) -> Answer {
        guard let body else { throw .notFound }
        return Answer(.ok, body)
    }

    /// Responds with 201 for a created value, 200 for a changed one, and 404 if its parent does not exist.
    package static func written<Body: AnswerBody>(_ written: (isNew: Bool, value: Body)?) throws(Refusal) -> Answer {
        guard let written else { throw .notFound }
        return Answer(written.isNew ? .created : .ok, written.value)
    }
}
