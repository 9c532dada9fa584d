import HTTPTypes
import HummingbirdCore
import JSONText
import SyncModel
import Testing

@testable import SyncHTTP

@Suite("Answers")
struct AnswerTests {
    private struct Surprise: Error {
        let secret = "SELECT"
    }

    private func answer(_ error: any Error) -> Answer {
        Refusal(of: error).answer(requestID: "r1")
    }

    private func text(_ answer: Answer) -> String {
        String(decoding: answer.body ?? [], as: UTF8.self)
    }

    @Test
    func `a problem response has its status and the request id`() {
        let answer = answer(Problem(.sequenceGap, "missing"))
        #expect(answer.status == .conflict)
        #expect(answer.contentType == "application/problem+json")
        #expect(text(answer).contains("\"request_id\":\"r1\""))
        #expect(text(answer).contains("\"type\":\"urn:sluice:problem:sequence_gap\""))
    }

    @Test
    func `an unexpected error reveals no details`() {
        let answer = answer(Surprise())
        #expect(answer.status == .internalServerError)
        #expect(!text(answer).contains("SELECT"))
        #expect(!text(answer).contains("Surprise"))
    }

    @Test(arguments: [ProblemCode.rateLimited, .overloaded, .storeUnavailable]
    )
    func `temporary problems have a Retry-After`(code: ProblemCode) {
        #expect(answer(Problem(code, "later")).headers[.retryAfter] == "1")
        var problem = Problem(code, "later")
        problem.retryAfter = 7
        #expect(answer(problem).headers[.retryAfter] == "7")
    }

    @Test
    func `every 401 has a challenge`() {
        #expect(answer(Problem(.unauthorized, "no")).headers[.wwwAuthenticate] == "Bearer")
        let refusal = BearerToken.refusal("invalid_token", "The token has expired.")
        let challenge = "Bearer error=\"invalid_token\", error_description=\"The token has expired.\""
        #expect(answer(refusal).headers[.wwwAuthenticate] == challenge)
    }

    @Test
    func `HEAD returns the length and no body`() {
        let response = Answer(.ok, json: Array("{}".utf8)).response(to: .head, requestID: "r", date: nil)
        #expect(response.headers[.contentLength] == "2")
        #expect(response.body.contentLength == 0)
    }

    @Test(arguments: [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
        (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
    ]
    )
    func `formats dates as in HTTP`(seconds: Int64, text: String) {
        #expect(HTTPDate.format(Timestamp(microseconds: seconds * 1_000_000)) == text)
    }
}
