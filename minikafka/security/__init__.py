"""Who may do what: access control lists, and the decision that they make. Pure: no clock, no socket, no file.

* ``acls``        what an ACL says, and which ones a filter matches
* ``acl_index``   ACLs by whom and what they are about, so that a decision looks at few of them
* ``authorizer``  the decision, as Apache Kafka's StandardAuthorizer makes it
"""
