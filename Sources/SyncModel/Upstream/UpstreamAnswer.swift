/// The result of a request.
public enum UpstreamAnswer: Sendable {
    case response(UpstreamResponse)
    /// Certainly not sent: there is no connection. The reason, for operators and users.
    case notSent(String)
    /// Never sent: the gateway itself refuses the request as it is. Says nothing about the upstream. The reason.
    case refused(String)
    /// Not sent: the upstream's settings, or this gateway, let nothing be sent: there is no key to sign with, or the
    /// gateway shuts down. Says nothing about the request, nor about the upstream. The reason.
    case unready(String)
    /// No answer, though the request may have arrived: it timed out, or the connection broke. The reason.
    case unknown(String)
}
