/// What came of a request.
public enum UpstreamAnswer: Sendable {
    /// The upstream answered.
    case response(UpstreamResponse)
    /// Nothing was sent, for certain: there is no connection. The reason, for operators and users.
    case notSent(String)
    /// Nothing was sent, and nothing ever will be: the gateway itself refuses the request as it is. It says nothing of
    /// the upstream. The reason.
    case refused(String)
    /// Nothing was sent, for nothing can be sent to this upstream as it is set up, or not by this gateway: there is no
    /// key to sign with, or the gateway ends. It says nothing of the request, nor of the upstream. The reason.
    case unready(String)
    /// No answer, though the request may have arrived: it timed out, or the connection broke. The reason.
    case unknown(String)
}
