package import FoundationEssentials
package import HTTPTypes
package import HummingbirdCore
package import JSONText
package import NIOCore
package import SyncModel

/// An endpoint's response.
package struct Answer: Sendable {
    package var status: HTTPResponse.Status
    /// The body; nil for a response without a body.
    package var body: [UInt8]?
    /// A body that several responses share. If it is set, ``body`` is ignored.
    package var sharedBody: ByteBuffer?
    package var contentType = "application/json"
    package var headers = HTTPFields()
    /// The user's remaining quota after a push.
    package var quotaStatus: QuotaStatus?
    /// Takes over the connection after the head. If it is set, ``body`` is ignored.
    package var successor: SocketHandover.Successor?
    /// Writes a body whose length is not known in advance. If it is set, ``body`` is ignored.
    ///
    /// If the function throws an error, the connection ends, so that the client can detect that the body is incomplete.
    package var stream: (@Sendable (_ write: ([UInt8]) async throws -> Void) async throws -> Void)?

    package init(_ status: HTTPResponse.Status, json body: [UInt8]) {
        self.status = status
        self.body = body
    }

    package init(_ status: HTTPResponse.Status, sharedJSON body: ByteBuffer) {
        self.status = status
        sharedBody = body
    }

    package init(_ status: HTTPResponse.Status) {
        self.status = status
    }

    /// Returns the complete response, with the endpoint's fields and the fields of every response.
    package func response(to method: HTTPRequest.Method, requestID: String, date: String?) -> Response {
        let (head, body) = message(to: method, requestID: requestID, date: date)
        if let stream, method != .head {
            let content = ResponseBody { writer in
                try await stream { try await writer.write(ByteBuffer(bytes: $0)) }
                try await writer.finish(nil)
            }
            return Response(status: head.status, headers: head.headerFields, body: content)
        }
        let content = body.map { ResponseBody(byteBuffer: $0) } ?? ResponseBody()
        return Response(status: head.status, headers: head.headerFields, body: content)
    }

    /// Returns the response's head and body. If the body is nil, the head may lack the length.
    package func message(
        to method: HTTPRequest.Method,
        requestID: String,
        date: String?
    ) -> (head: HTTPResponse, body: ByteBuffer?) {
        var fields = headers
        fields.append(HTTPField(name: .xRequestID, value: requestID))
        if let date { fields.append(HTTPField(name: .date, value: date)) }
        let length = sharedBody?.readableBytes ?? body?.count
        if length != nil || successor != nil || stream != nil {
            fields.append(HTTPField(name: .contentType, value: contentType))
        }
        if let length { fields.append(HTTPField(name: .contentLength, value: String(length))) }
        let head = HTTPResponse(status: status, headerFields: fields)
        guard method != .head, length != nil else { return (head, nil) }
        return (head, sharedBody ?? ByteBuffer(bytes: body ?? []))
    }
}

/// A value that can be written as a JSON object. Writing it never fails.
package protocol AnswerBody {
    /// The capacity to reserve: the text's length, or slightly less.
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

    /// Creates a response whose body is an object with these members.
    package init(_ status: HTTPResponse.Status, capacity: Int = 256, _ members: (inout JSONWriter) -> Void) {
        self.init(status, json: JSONWriter.object(capacity: capacity, members))
    }

    /// Responds with 200 and the value, or with 404 if there is no value.
    package static func found(_ body: (some AnswerBody)?) throws(Refusal) -> Answer {
        guard let body else { throw .notFound }
        return Answer(.ok, body)
    }

    /// Responds with 201 for a created value, with 200 for a changed value, and with 404 if the value's parent does not
    /// exist.
    package static func written<Body: AnswerBody>(_ written: (isNew: Bool, value: Body)?) throws(Refusal) -> Answer {
        guard let written else { throw .notFound }
        return Answer(written.isNew ? .created : .ok, written.value)
    }
}

/// A problem with its HTTP headers. Endpoints throw a refusal or, if no headers are needed, a ``Problem``.
package struct Refusal: Error, Sendable {
    package var problem: Problem
    package var headers: HTTPFields
    /// The unexpected error, for the log.
    private(set) var cause: (any Error)?

    package init(_ problem: Problem, headers: HTTPFields = HTTPFields()) {
        self.problem = problem
        self.headers = headers
    }
}

extension Refusal {
    /// Converts any error to an HTTP response. Unexpected errors are described only in the log.
    package init(of error: any Error) {
        switch error {
        case let refusal as Refusal:
            self = refusal
        case let problem as Problem:
            self.init(problem)
        case is CancellationError:
            var problem = Problem(.overloaded, "The server is shutting down.")
            problem.retryAfter = 1
            self.init(problem)
        default:
            self.init(Problem(.internalError, "An unexpected error occurred; the log has it under the request_id."))
            cause = error
        }
    }

    package static let notFound = Refusal(Problem(.notFound, "The resource does not exist."))

    /// The response, with the headers that the problem's code requires.
    package func answer(requestID: String) -> Answer {
        var writer = JSONWriter(capacity: 512)
        problem.write(to: &writer, requestID: requestID)
        var answer = Answer(HTTPResponse.Status(code: problem.code.status), json: writer.bytes)
        answer.contentType = "application/problem+json"
        answer.headers = headers
        if let seconds = problem.retryAfter ?? (problem.code.isTemporary ? 1 : nil) {
            answer.headers[.retryAfter] = String(seconds)
        }
        if problem.code == .unauthorized, answer.headers[.wwwAuthenticate] == nil {
            answer.headers[.wwwAuthenticate] = "Bearer"
        }
        return answer
    }
}

extension ProblemCode {
    /// Whether the same request can succeed later. If so, the response has `Retry-After`.
    fileprivate var isTemporary: Bool {
        self == .rateLimited || self == .overloaded || self == .storeUnavailable
    }
}

extension JSONWriter {
    /// Writes a member with an array of values, each written by `write`.
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

    /// Writes a member with a body, or `null`.
    package mutating func member(_ name: StaticString, _ body: (some AnswerBody)?) {
        self.name(name)
        if let body { object { body.writeMembers(to: &$0) } } else { null() }
    }
}
