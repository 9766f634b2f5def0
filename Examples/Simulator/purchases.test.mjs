// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createPrivateKey, sign, verify, X509Certificate } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

const folder = join(mkdtempSync(join(tmpdir(), 'test-')), 'simulator')
const purchases = new Map()
const received = []
let values, root, store

/** The payload of a signed text of the App Store, as the server under test verifies it. */
function verified(jws) {
    const [header, payload, signature] = jws.split('.')
    const [leaf, intermediate, last] = JSON.parse(Buffer.from(header, 'base64url')).x5c
        .map(text => new X509Certificate(Buffer.from(text, 'base64')))
    assert.equal(last.fingerprint256, root.fingerprint256)
    assert(leaf.checkIssued(intermediate) && leaf.verify(intermediate.publicKey))
    assert(intermediate.checkIssued(last) && intermediate.verify(last.publicKey))
    const key = { key: leaf.publicKey, dsaEncoding: 'ieee-p1363' }
    assert(verify('sha256', Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, 'base64url')))
    return JSON.parse(Buffer.from(payload, 'base64url'))
}

/** The server under test: replace it by yours. It keeps the newest transaction of each purchase. */
const server = createServer(async (request, response) => {
    const body = JSON.parse((await request.toArray()).join(''))
    const notification = verified(body.signedPayload)
    if (notification.data?.signedTransactionInfo) {
        const transaction = verified(notification.data.signedTransactionInfo)
        purchases.set(transaction.originalTransactionId, transaction)
    }
    received.push(notification.notificationType)
    response.end()
})

before(async () => {
    await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
    store = spawn('quittance', [
        'simulate', '--kind', '--seed', '1', '--speed', '0', '--start', '2026-01-01T00:00:00Z',
        '--port', '0', '--sandbox-port', '0', '--control-port', '0', '--out', folder,
        '--notify', `http://127.0.0.1:${server.address().port}/notifications`,
    ], { stdio: ['ignore', 'ignore', 'inherit'] })
    // The last file that it writes.
    while (!existsSync(join(folder, 'simulator.env'))) {
        assert.equal(store.exitCode, null, 'the simulator ended')
        await sleep(20)
    }
    values = JSON.parse(readFileSync(join(folder, 'simulator.json')))
    root = new X509Certificate(readFileSync(join(folder, 'root.cer')))
})

after(() => {
    store.kill()
    server.closeAllConnections()
    server.close()
})

/** Commands the App Store: its customers, its clock. The server has then answered all notifications. */
async function command(path, members = {}) {
    const response = await fetch(values.control + path, { method: 'POST', body: JSON.stringify(members) })
    assert(response.ok, await response.clone().text())
    return response.json()
}

/** Calls the App Store Server API. */
async function get(path) {
    const now = Math.floor(Date.now() / 1000)
    const parts = [
        { alg: 'ES256', kid: values.keyId, typ: 'JWT' },
        { iss: values.issuerId, iat: now, exp: now + 300, aud: 'appstoreconnect-v1', bid: values.bundleId },
    ].map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
    const key = { key: createPrivateKey(readFileSync(values.keyFile)), dsaEncoding: 'ieee-p1363' }
    const token = `${parts}.${sign('sha256', Buffer.from(parts), key).toString('base64url')}`
    const response = await fetch(values.production + path, { headers: { authorization: `Bearer ${token}` } })
    assert(response.ok, `${response.status} ${await response.clone().text()}`)
    return response.json()
}

function expect(type) {
    assert.deepEqual(received.splice(0), [type])
}

test('a month renews, fails, recovers, and is refunded', async () => {
    await command('/customers', { name: 'anna' })
    const bought = await command('/customers/anna/buy', { product: 'com.example.notes.pro.monthly' })
    expect('SUBSCRIBED')
    await command('/clock/advance', { days: 7 })  // The free week ends.
    expect('DID_RENEW')
    await command('/customers/anna/billing/break')
    await command('/clock/advance', { days: 31 })
    expect('DID_FAIL_TO_RENEW')
    await command('/customers/anna/billing/fix')
    expect('DID_RENEW')
    const newest = purchases.get(bought.transactionId).transactionId
    await command('/customers/anna/refund', { transaction: newest })
    expect('REFUND')
    assert(purchases.get(bought.transactionId).revocationDate)

    const answer = await get(`/inApps/v1/transactions/${newest}`)
    assert.equal(verified(answer.signedTransactionInfo).revocationDate,
        purchases.get(bought.transactionId).revocationDate)
})
