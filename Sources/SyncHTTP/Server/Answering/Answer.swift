package import HTTPTypes
package import HummingbirdCore
package import NIOCore
package import SyncModel

/// An endpoint's response.
package struct Answer: Sendable {
    package var status: HTTPResponse.Status
    /// Nil: no body at all.
    package var body: [UInt8]?
    /// A body that several responses share; takes precedence over ``body``.
    package var sharedBody: ByteBuffer?
    package var contentType = "application/json"
    package var headers = HTTPFields()
    /// The rest of the user's quota after a push.
    package var standing: QuotaStatus?
    /// Takes the connection over after the head; takes precedence over ``body``.
    package var successor: SocketHandover.Successor?
    /// Writes a body whose length is unknown before its end; takes precedence over ``body``.
    ///
    /// An error that it throws breaks the connection off, so that the client can detect the missing rest.
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

    /// The complete response: the endpoint's fields and those of every response.
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

    /// The response's head and its body; without a body the head may lack its length.
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
