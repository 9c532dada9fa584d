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
        var fields = headers
        fields.append(HTTPField(name: .xRequestID, value: requestID))
        if let date { fields.append(HTTPField(name: .date, value: date)) }
        guard let length = sharedBody?.readableBytes ?? body?.count else {
            if successor != nil { fields.append(HTTPField(name: .contentType, value: contentType)) }
            return Response(status: status, headers: fields)
        }
        fields.append(HTTPField(name: .contentType, value: contentType))
        if method == .head {
            fields.append(HTTPField(name: .contentLength, value: String(length)))
            return Response(status: status, headers: fields)
        }
        let buffer = sharedBody ?? ByteBuffer(bytes: body ?? [])
        return Response(status: status, headers: fields, body: ResponseBody(byteBuffer: buffer))
    }
}
