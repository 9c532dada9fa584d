/// The result of a request.
public enum UpstreamAnswer: Sendable {
    case response(UpstreamResponse)
    /// Certainly not sent: there is no connection. The reason, for operators and users.
    case notSent(String)
    /// Never sent: the gateway itself refuses the request as it is, for this reason.
    ///
    /// This contains no information about the upstream.
    case refused(String)
    /// Not sent, because of the upstream's settings or this gateway, for this reason.
    ///
    /// There is no key to sign with, or the gateway shuts down. This contains no information about the request, nor
    /// about the upstream.
    case unready(String)
    /// No answer, though the request may have arrived, for this reason.
    ///
    /// It timed out, or the connection broke.
    case unknown(String)
}
