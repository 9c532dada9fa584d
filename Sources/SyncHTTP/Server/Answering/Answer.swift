import HTTPTypes
import HummingbirdCore
import NIOCore
import SyncModel

/// An endpoint's answer.
struct Answer: Sendable {
    var status: HTTPResponse.Status
    /// Nil: no body at all.
    var body: [UInt8]?
    /// A body that all such answers share; takes precedence over ``body``.
    var sharedBody: ByteBuffer?
    var contentType = "application/json"
    var headers = HTTPFields()
    /// What is left of the user's quota after a push.
    var standing: QuotaStanding?
    /// Takes the connection over behind the head; takes precedence over ``body``.
    var successor: SocketHandover.Successor?

    init(_ status: HTTPResponse.Status, json body: [UInt8]) {
        self.status = status
        self.body = body
    }

    init(_ status: HTTPResponse.Status, sharedJSON body: ByteBuffer) {
        self.status = status
        sharedBody = body
    }

    init(_ status: HTTPResponse.Status) {
        self.status = status
    }

    /// The complete response: the answer's own fields and those that every response carries.
    func response(to method: HTTPRequest.Method, requestID: String, date: String?) -> Response {
        let (head, body) = message(to: method, requestID: requestID, date: date)
        let content = body.map { ResponseBody(byteBuffer: $0) } ?? ResponseBody()
        return Response(status: head.status, headers: head.headerFields, body: content)
    }

    /// The response's head and its body; without a body the head may lack its length.
    func message(
        to method: HTTPRequest.Method,
        requestID: String,
        date: String?
    ) -> (head: HTTPResponse, body: ByteBuffer?) {
        var fields = headers
        fields.append(HTTPField(name: .xRequestID, value: requestID))
        if let date { fields.append(HTTPField(name: .date, value: date)) }
        let length = sharedBody?.readableBytes ?? body?.count
        if length != nil || successor != nil { fields.append(HTTPField(name: .contentType, value: contentType)) }
        if let length { fields.append(HTTPField(name: .contentLength, value: String(length))) }
        let head = HTTPResponse(status: status, headerFields: fields)
        guard method != .head, length != nil else { return (head, nil) }
        return (head, sharedBody ?? ByteBuffer(bytes: body ?? []))
    }
}
