package import HTTPTypes
import JSONText
package import SyncModel

/// A problem with its HTTP headers. Endpoints throw it or a bare ``Problem``.
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
    /// The one place where errors become HTTP. Unexpected errors go to the log alone.
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
    /// Whether the same request may succeed later: such responses have `Retry-After`.
    fileprivate var isTemporary: Bool {
        self == .rateLimited || self == .overloaded || self == .storeUnavailable
    }
}
