package import StandardWebhooks
import SyncDispatch
package import SyncModel
import SyncStore
import SyncUpstream

extension WebhookDispatcher.WebhookTransport {
    /// Signs messages with their endpoints' secrets, and with the gateway's key where there is one, and sends them.
    package static func signing(
        by key: WebhookSigningKey?,
        with sender: WebhookSender,
        now: @escaping TimeSource
    ) -> WebhookDispatcher.WebhookTransport {
        WebhookDispatcher.WebhookTransport { url in
            let line = await sender.open(url)
            return Session { delivery, lease in
                let secrets = lease.secrets.compactMap(WebhookSecret.init)
                guard secrets.count == lease.secrets.count else { return .none("the secret cannot be used; rotate it") }
                let body = delivery.body(of: lease.endpoint.organization)
                let signer = WebhookSigner(secrets: secrets, key: key)
                do {
                    let headers = try signer.headers(
                        id: delivery.messageID,
                        timestamp: now().seconds,
                        body: body
                    )
                    return await sender.send(body, headers: headers, on: line)
                } catch {
                    return .none("the message could not be signed")
                }
            } close: {
                await line.close()
            }
        }
    }
}
